"""The page of a sweep: all curves over each other, a table that sorts, a line for every point; one file, no network."""

import math
import os
import urllib.parse
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from txjax.numbers import full
from txjax.report.curves import DARK, LIGHT
from txjax.report.run_page import document, picture, text
from txjax.report.sweep_plots import shade
from txjax.report.sweep_table import SEED, Group, Row
from txjax.sweep.names import labels

Picture = tuple[bytes, bytes]  # PNGs for light and for dark screens

_STYLE = """
.card + .card { margin-top: 1rem; }
th button { all: unset; cursor: pointer; white-space: nowrap; }
th button:focus-visible { outline: 2px solid var(--faint); outline-offset: 3px; border-radius: 3px; }
th[aria-sort=ascending] button::after { content: " ▲"; }
th[aria-sort=descending] button::after { content: " ▼"; }
td { overflow-wrap: normal; white-space: nowrap; }
i { display: inline-block; width: 0.7em; height: 0.7em; border-radius: 50%; margin-right: 0.6em; background: var(--l); }
@media (prefers-color-scheme: dark) { i { background: var(--d); } }
"""
# A click on a heading sorts by its column, a second one the other way round; empty cells stay last.
_SCRIPT = """
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
"""


def ranked(groups: Sequence[Group], metric: str) -> list[Row]:
    """All points: those of the best group first, and of a group those without a score last."""
    return [row for group in groups for row in sorted(group.rows, key=lambda row: not math.isfinite(row.score(metric)))]


def page(
    folder: Path,
    out: Path,
    rows: Sequence[Row],
    groups: Sequence[Group],
    metric: str,
    overlaid: Sequence[Picture],
    by_setting: Sequence[Picture],
) -> str:
    """The page.

    Args:
      folder: the sweep's.
      out: where the page will lie; links to the points' own pages start there.
      rows: the best first.
      groups: the same with seeds taken together.
      overlaid: the curves of all points.
      by_setting: what the axes do to the metric.
    """
    finished = sum(row.state == "finished" for row in rows)
    parts = [picture(f"{metric} of all points, step by step", *both) for both in overlaid]
    if any(len(group.rows) > 1 for group in groups):
        parts += ["<h2>Seeds averaged</h2>", _averages(groups, metric)]
    parts += ["<h2>Points</h2>", _points(folder, out, rows, metric)]
    if by_setting:
        parts += ["<h2>Settings</h2>", *(picture(f"{metric} by setting", *both) for both in by_setting)]
    subtitle = f"{finished} of {len(rows)} points finished, ranked by {metric}"
    return document(folder.resolve().name, subtitle, parts, _STYLE, _SCRIPT)


def _averages(groups: Sequence[Group], metric: str) -> str:
    paths = list(dict.fromkeys(path for group in groups for path in group.values if path != SEED))
    rows = [
        [*(_cell(group.values.get(path, "")) for path in paths)]
        + [_cell("" if math.isnan(x) else x) for x in (group.mean, group.error, group.count)]
        for group in groups
    ]
    return _table([*_short(paths), metric, "standard error", "runs"], rows)


def _points(folder: Path, out: Path, rows: Sequence[Row], metric: str) -> str:
    paths = list(dict.fromkeys(path for row in rows for path in row.values))
    known = dict.fromkeys(name for row in rows for name in row.metrics)
    others = [name for name in known if name.startswith("eval/") or name == "train/loss"]
    metrics = list(dict.fromkeys([metric, *others]))
    cells = []
    for rank, row in enumerate(rows):
        colours = f"--l:{shade(LIGHT, rank, len(rows))};--d:{shade(DARK, rank, len(rows))}"
        swatch = f'<i style="{colours}"></i>' if row.metrics else "<i></i>"
        name = f'<td data-value="{rank}">{swatch}{_name(folder, out, row)}</td>'
        values = [_cell(row.values.get(path, "")) for path in paths]
        cells.append([name, *values, *(_cell(row.metrics.get(name, "")) for name in metrics), _cell(row.state)])
    return _table(["point", *_short(paths), *metrics, "state"], cells)


def _short(paths: Sequence[str]) -> list[str]:
    return list(labels(list(paths)).values())


def _name(folder: Path, out: Path, row: Row) -> str:
    """The point's name; a link to its own page if it has one."""
    own = folder / row.name / "report" / "index.html"
    if not (own.is_file() and own.resolve().is_relative_to(folder.resolve())):
        return text(row.name)
    address = urllib.parse.quote(os.path.relpath(own.resolve(), out.resolve()))
    return f'<a href="{address}">{text(row.name)}</a>'


def _cell(value: Any) -> str:
    """A cell; of a number all digits, to sort by."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return f"<td>{text(full(value))}</td>"
    exact = repr(value) if math.isfinite(value) else ""
    return f'<td data-value="{exact}">{text(full(value))}</td>'


def _table(names: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    head = "".join(f"<th><button>{text(name)}</button></th>" for name in names)
    body = "\n".join(f"<tr>{''.join(row)}</tr>" for row in rows)
    return f'<div class="card"><table><thead><tr>{head}</tr></thead>\n<tbody>{body}</tbody></table></div>'
