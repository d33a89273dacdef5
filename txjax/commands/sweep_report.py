"""The report of a sweep's folder: a table of its points, pictures of its axes."""

import json
import math
from pathlib import Path

from txjax.commands.curves import LIGHT
from txjax.commands.page import png, shown
from txjax.commands.runs import check_inside
from txjax.commands.sweep_plots import axes_of, parallel, per_axis
from txjax.commands.sweep_table import Group, grouped, metric_of, read, to_json
from txjax.files import replace_bytes
from txjax.log.table import table
from txjax.sweep.names import labels


def report(folder: Path, out: Path, sort: str | None, as_json: bool) -> None:
    """Prints the table, sorted by a metric (`-eval/x/accuracy`: the largest first), and draws the pictures."""
    rows = read(folder)
    most = bool(sort) and str(sort).startswith("-")
    metric = metric_of(rows, sort[1:] if sort and most else sort)
    groups = grouped(rows, metric, most)
    pictures = []
    if any(math.isfinite(group.mean) for group in groups):
        if out.parent == folder:
            check_inside("--out", out, folder)
        out.mkdir(parents=True, exist_ok=True)
        drawn = {"axes.png": per_axis(groups, metric, LIGHT, most)}
        if axes_of([group for group in groups if math.isfinite(group.mean)]):
            drawn["parallel.png"] = parallel(groups, metric, LIGHT)
        for name, figure in drawn.items():
            replace_bytes(out / name, png(figure))
            pictures.append(str(out / name))
    if as_json:
        print(json.dumps(to_json(rows, groups, metric) | {"pictures": pictures}))
        return
    paths = axes_of(groups)
    title = f"{folder}: {sum(row.state == 'finished' for row in rows)} of {len(rows)} points finished"
    names = [*labels(paths).values(), metric, "standard error", "runs", "unfinished"]
    table(title, names, [_cells(group, paths) for group in groups])
    print("\n" + "\n".join(pictures))


def _cells(group: Group, paths: list[str]) -> list[str]:
    values = [shown(group.values[path]) if path in group.values else "" for path in paths]
    left = [row.state for row in group.rows if row.state != "finished"]
    scores = ["" if math.isnan(x) else shown(x) for x in (group.mean, group.error)]
    return [*values, *scores, str(group.count), ", ".join(dict.fromkeys(left))]
