// Puts charts in the place of the picture of curves. A drag shows its range of steps in all charts, a double click shows all steps; a
// click on a name hides its line; one cursor reads the values of a step, or of the nearest one that a line has, in all charts.
{
  const data = JSON.parse(document.getElementById("curves").textContent);
  const dark = matchMedia("(prefers-color-scheme: dark)");
  const css = name => getComputedStyle(document.documentElement).getPropertyValue(name);
  const whole = step => step.toLocaleString("en");
  const format = (value, number) => Math.abs(value) < 1e-3 && value != 0 ? String(+value.toPrecision(4)) : number.format(value);
  const five = new Intl.NumberFormat("en", { maximumSignificantDigits: 5 });
  const short = new Intl.NumberFormat("en", { notation: "compact", maximumSignificantDigits: 4 });

  // The index of the point that a line has nearest to a step of its chart. A value that isn't finite (null) is a point.
  function nearest(chart, series, index) {
    const steps = chart.data[0], values = chart.data[series];
    let before = index, after = index;
    while (before >= 0 && values[before] === undefined) before--;
    while (after < values.length && values[after] === undefined) after++;
    if (before < 0 || after == values.length) return before < 0 ? after : before;
    return steps[index] - steps[before] <= steps[after] - steps[index] ? before : after;
  }

  function read(chart, value, series, index) {
    if (index == null) return "";
    const text = chart.data[series][index] == null ? "–" : format(value, five);
    return index == chart.cursor.idx ? text : `${text} (step ${whole(chart.data[0][index])})`;
  }

  // The series of a line: its points, pale where its moving average is drawn on them, without an entry in the legend.
  function seriesOf(line) {
    const color = () => line.colors[+dark.matches], count = line.points[1].length;
    const dots = { show: line.measured ? count <= 40 : count == 1, size: 6, fill: color };
    const points = { line, table: line.points, label: line.name, value: read, pxAlign: 0, points: dots,
      stroke: line.average ? () => color() + "40" : color, width: line.measured ? 2.2 : line.average ? 0.7 : 1.6 };
    const average = { line, table: line.average, class: "average", pxAlign: 0, points: { show: false }, stroke: color, width: 1.6 };
    return line.average ? [points, average] : [points];
  }

  function draw(panel, place) {
    const lines = panel.lines.flatMap(seriesOf);
    const series = [{ label: "step", value: (_, step) => step == null ? "" : whole(step) }, ...lines];
    const axis = { stroke: () => css("--faint"), grid: { stroke: () => css("--rule"), width: 1 }, ticks: { show: false },
      font: "12px system-ui, sans-serif", values: (_, ticks) => ticks.map(tick => format(tick, short)) };
    const range = (_, least, most) => {
      const [bottom, top] = uPlot.rangeNum(least ?? 0, most ?? 1, 0.1, true);
      return [panel.bottom ?? bottom, Math.min(top, panel.top ?? Infinity)];
    };
    const color = (_, i) => `light-dark(${series[i].line?.colors})`;
    const expand = 2;  // a value that isn't finite is a gap up to the line's next points, whatever steps other lines have
    const tables = lines.map(({ table }) => [data.steps[table[0]], table[1]]);
    return new uPlot({
      width: place.clientWidth, height: panel.height, series,
      axes: [{ ...axis, size: 30, space: 70 }, { ...axis, size: 60 }],
      scales: { x: { time: false }, y: { range } },
      legend: { markers: { width: 3, stroke: color } },
      cursor: { sync: { key: "steps" }, y: false, dataIdx: nearest,
        points: { size: (_, i) => series[i].class ? 0 : 7, fill: color, stroke: color } },
      hooks: { setSeries: [(chart, i, { show }) => {  // a line and its average are hidden together
        if (show != null && series[i + 1]?.class && chart.series[i + 1].show != show) chart.setSeries(i + 1, { show });
      }] },
    }, uPlot.join(tables, tables.map(() => [0, expand])), place);
  }

  function add(parent, tag, properties) {
    return parent.appendChild(Object.assign(document.createElement(tag), properties));
  }

  const curves = document.querySelector(".curves .card");
  curves.replaceChildren();
  const charts = add(curves, "div", { id: "charts" });
  const plots = data.charts.map(panel => {
    const place = add(charts, "div", { role: "figure", ariaLabel: panel.title, className: panel.height > 300 ? "wide" : "" });
    add(place, "h3", { textContent: panel.title });
    const plot = draw(panel, place);
    new ResizeObserver(() => plot.setSize({ width: place.clientWidth, height: panel.height })).observe(place);
    return plot;
  });
  add(curves, "p", { textContent: "Drag to zoom, double click for all steps, click a name to hide its line."
    + (data.limit ? ` Of longer lines there are about ${whole(data.limit)} points: the least and the greatest value of each interval.` : "") });
  dark.addEventListener("change", () => plots.forEach(plot => plot.redraw()));
}
