"""The report of a sweep: a table of its points, plots, and an HTML page with both."""

import json
import math
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from matplotlib.figure import Figure

from txjax.io.files import replace_bytes, replace_text
from txjax.report.charts import chart_data
from txjax.report.png import png
from txjax.report.runs import check_inside
from txjax.report.sweep_axes import edges, independent_axes
from txjax.report.sweep_page import Picture, page, rank_points
from txjax.report.sweep_plots import curves, parallel, per_axis, sweep_panels
from txjax.report.sweep_results import print_all
from txjax.report.sweep_table import Group, Row, group_seeds, metric_of, read, to_json
from txjax.report.theme import DARK, LIGHT, Theme


def report(folder: Path, out: Path, sort: str | None, as_json: bool) -> None:
    """Prints the table, sorted by a metric (`-eval/x/accuracy`: largest first), and writes plots and the HTML page."""
    rows = read(folder)
    most = bool(sort) and str(sort).startswith("-")
    metric = metric_of(rows, sort[1:] if sort and most else sort)
    groups = group_seeds(rows, metric, most)
    if out.parent == folder:
        check_inside("--out", out, folder)
    out.mkdir(parents=True, exist_ok=True)
    pictures = _pictures(groups, metric, most)
    for name, (light, _) in pictures.items():
        replace_bytes(out / name, light)
    points = rank_points(groups, metric)
    paths = [str(out / name) for name in pictures]
    logged = [name for name in dict.fromkeys([metric, "train/loss"]) if any(row.run.series(name)[0] for row in points)]
    overlaid = [_draw_curves(points, logged)] if logged else []
    html = out / "index.html"
    replace_text(html, page(folder, out, points, groups, metric, overlaid, list(pictures.values())))
    if as_json:
        print(
            json.dumps(to_json(rows, groups, metric) | {"edges": edges(groups), "pictures": paths, "html": str(html)})
        )
        return
    print_all(folder, rows, groups, metric)
    print("\n" + "\n".join([*paths, str(html)]))


def _pictures(groups: Sequence[Group], metric: str, most: bool) -> dict[str, Picture]:
    """Plots of the metric against the axes for finished points, by file name."""
    good = [group for group in groups if math.isfinite(group.mean)]
    pictures = {"axes.png": _draw_pictures(lambda theme: per_axis(groups, metric, theme, most))} if good else {}
    if independent_axes(good):
        pictures["parallel.png"] = _draw_pictures(lambda theme: parallel(groups, metric, theme))
    return pictures


def _draw_curves(points: Sequence[Row], metrics: Sequence[str]) -> tuple[bytes, bytes, dict[str, Any]]:
    """Pictures of the curves of all points, and the data of their charts."""
    light = sweep_panels(points, metrics, LIGHT)
    dark = sweep_panels(points, metrics, DARK)
    return png(curves(light, LIGHT)), png(curves(dark, DARK)), chart_data(light, dark)


def _draw_pictures(draw: Callable[[Theme], Figure]) -> Picture:
    return png(draw(LIGHT)), png(draw(DARK))
