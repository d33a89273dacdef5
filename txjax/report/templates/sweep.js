// A click on a heading sorts by its column, a second one the other way round; empty cells stay last.
for (const button of document.querySelectorAll("th button")) button.onclick = () => {
  const th = button.parentNode, body = th.closest("table").tBodies[0], i = th.cellIndex;
  const up = th.getAttribute("aria-sort") != "ascending";
  const key = row => row.cells[i].dataset.value ?? row.cells[i].textContent;
  const number = x => x.trim() !== "" && !isNaN(x);
  const rows = [...body.rows].sort((a, b) => {
    const [x, y] = [key(a), key(b)];
    if (x === "" || y === "") return (x === "") - (y === "");
    const order = number(x) && number(y) ? x - y : x.localeCompare(y);
    return up ? order : -order;
  });
  for (const other of th.parentNode.cells) other.removeAttribute("aria-sort");
  th.setAttribute("aria-sort", up ? "ascending" : "descending");
  body.append(...rows);
};
