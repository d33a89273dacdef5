"""The HTML page of a sweep: all curves overlaid, and a sortable table of points; one self-contained file."""

import math
import os
import urllib.parse
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from txjax.report.render import render
from txjax.report.sweep_axes import edges
from txjax.report.sweep_table import SEED, Group, Row
from txjax.report.theme import DARK, LIGHT, shade
from txjax.sweep.names import labels

Picture = tuple[bytes, bytes]  # PNGs in the light and the dark theme


def rank_points(groups: Sequence[Group], metric: str) -> list[Row]:
    """All points: groups in order, best first, and in a group those without a score last."""
    return [row for group in groups for row in sorted(group.rows, key=lambda row: not math.isfinite(row.score(metric)))]


def page(
    folder: Path,
    out: Path,
    rows: Sequence[Row],
    groups: Sequence[Group],
    metric: str,
    overlaid: Sequence[tuple[bytes, bytes, dict[str, Any]]],
    by_setting: Sequence[Picture],
) -> str:
    """The HTML page of a sweep.

    Args:
      folder: of the sweep.
      out: the folder of the page; links to the points' pages are relative to it.
      rows: the points, best first.
      groups: the points averaged over seeds.
      metric: the ranking metric.
      overlaid: plots of the curves of all points (at most one), in both themes, and the data of their charts.
      by_setting: plots of the metric against the axes.
    """
    finished = sum(row.state == "finished" for row in rows)
    paths = list(dict.fromkeys(path for row in rows for path in row.values))
    known = dict.fromkeys(name for row in rows for name in row.metrics)
    others = [name for name in known if name.startswith("eval/") or name == "train/loss"]
    metrics = list(dict.fromkeys([metric, *others]))
    return render(
        "sweep.html",
        folder.resolve().name,
        f"{finished} of {len(rows)} points finished, ranked by {metric}",
        metric=metric,
        overlaid=overlaid,
        averages=_averages(groups, metric) if any(len(group.rows) > 1 for group in groups) else None,
        names=["point", *_short(paths), *metrics, "state"],
        points=[
            {
                "name": row.name,
                "page": _own_page(folder, out, row),
                "colors": [shade(theme, rank, len(rows)) for theme in (LIGHT, DARK)] if row.metrics else None,
                "row": [*_values(row.values, paths), *_values(row.metrics, metrics), row.state],
            }
            for rank, row in enumerate(rows)
        ],
        by_setting=by_setting,
        edges=edges(groups),
    )


def _averages(groups: Sequence[Group], metric: str) -> dict[str, Any]:
    paths = list(dict.fromkeys(path for group in groups for path in group.values if path != SEED))
    rows = [
        [*_values(group.values, paths), *("" if math.isnan(x) else x for x in (group.mean, group.error, group.count))]
        for group in groups
    ]
    return {"names": [*_short(paths), metric, "standard error", "runs"], "rows": rows}


def _values(values: Mapping[str, Any], names: Sequence[str]) -> list[Any]:
    return [values.get(name, "") for name in names]


def _short(paths: Sequence[str]) -> list[str]:
    return list(labels(list(paths)).values())


def _own_page(folder: Path, out: Path, row: Row) -> str | None:
    """The relative URL of a point's own page. None if it has none."""
    path = folder / row.name / "report" / "index.html"
    if not (path.is_file() and path.resolve().is_relative_to(folder.resolve())):
        return None
    return urllib.parse.quote(os.path.relpath(path.resolve(), out.resolve()))
