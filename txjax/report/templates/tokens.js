const data = JSON.parse(document.getElementById("data").textContent);
const [example, map, layer, heads] = ["example", "map", "layer", "heads"].map((id) => document.getElementById(id));
const ROW = 16, WIDTH = 64, SVG = "http://www.w3.org/2000/svg";
let kept = null;

function fill(select, names) {
  const before = select.selectedIndex;
  select.replaceChildren(...names.map((name) => new Option(name)));
  select.selectedIndex = Math.min(Math.max(before, 0), names.length - 1);
}

function bytes(text) {
  return Uint8Array.from(atob(text), (character) => character.charCodeAt(0));
}

// The tokens of one side of a head; `point(i)` is called for the token under the pointer.
function column(words, side, point) {
  const div = document.createElement("div");
  words.forEach((word, i) => {
    const span = document.createElement("span");
    span.textContent = word;
    span.onmouseenter = () => kept || point({ side, i });
    span.onmouseleave = () => kept || point(null);
    span.onclick = () => { kept = kept && kept.side === side && kept.i === i ? null : { side, i }; point(kept || { side, i }); };
    div.append(span);
  });
  return div;
}

function show() {
  const shown = data[example.selectedIndex].maps[map.selectedIndex];
  const [L, S, H] = [shown.queries.length, shown.keys.length, shown.heads.length];
  const all = bytes(shown.weights), first = layer.selectedIndex * H * L * S;
  const draws = [];
  const point = (at) => draws.forEach((draw) => draw(at));
  heads.replaceChildren(...shown.heads.map((number, h) => {
    const weight = (i, j) => (all[first + (h * L + i) * S + j] / 255) ** 2;
    const head = document.createElement("div"), title = document.createElement("h3");
    const pair = document.createElement("div"), svg = document.createElementNS(SVG, "svg");
    head.className = "head"; pair.className = "pair"; title.textContent = "head " + number;
    const sides = [column(shown.queries, 0, point), column(shown.keys, 1, point)];
    svg.setAttribute("height", ROW * Math.max(L, S));
    pair.append(sides[0], svg, sides[1]);
    head.append(title, pair);
    draws.push((at) => {
      const lines = [], least = at ? 0.01 : 0.1;
      for (let i = 0; i < L; i++) for (let j = 0; j < S; j++) {
        const w = weight(i, j);
        if (w < least || at && (at.side ? j : i) !== at.i) continue;
        const line = document.createElementNS(SVG, "line");
        const ends = { x1: 0, y1: (i + 0.5) * ROW, x2: WIDTH, y2: (j + 0.5) * ROW, "stroke-opacity": w ** 0.7 };
        for (const [name, value] of Object.entries(ends)) line.setAttribute(name, value);
        lines.push(line);
      }
      svg.replaceChildren(...lines);
      sides.forEach((side, s) => [...side.children].forEach((span, n) => {
        const w = at && at.side !== s ? (s ? weight(at.i, n) : weight(n, at.i)) : 0;
        span.style.background = w ? `rgb(37 99 217 / ${w ** 0.7})` : "";
        span.title = w ? w.toFixed(3) : "";
        span.className = at && at.side === s && at.i === n ? "at" : "";
      }));
    });
    return head;
  }));
  point(kept);
}

function change(event) {
  kept = null;
  if (!event || event.target === example) fill(map, data[example.selectedIndex].maps.map((each) => each.name));
  if (!event || event.target !== layer) fill(layer, data[example.selectedIndex].maps[map.selectedIndex].layers);
  show();
}

fill(example, data.map((each) => each.title));
[example, map, layer].forEach((select) => { select.onchange = change; });
change();
