"""The points of a sweep as table rows: settings, state, metrics, and averages over seeds."""

import dataclasses
import json
import math
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from txjax.errors import UserError, near_misses
from txjax.log import METRICS, Value, plain
from txjax.report.runs import Run, check_inside, read_runs
from txjax.sweep.sweep_folder import Folder, SweepPoint, is_finished
from txjax.tree import flatten

SEED = "seed"


@dataclasses.dataclass(frozen=True)
class Row:
    """One point.

    Attributes:
      state: `finished`, `at step N` or `not begun`.
      values: on every axis of the sweep, including axes that only other points set.
      metrics: the last value of each.
      run: the run in its folder.
    """

    name: str
    state: str
    values: dict[str, Any]
    metrics: dict[str, Value]
    run: Run

    def score(self, metric: str) -> float:
        """A metric's last value. NaN if there is none, or if it is a text."""
        value = self.metrics.get(metric, math.nan)
        return math.nan if isinstance(value, str) else float(value)


@dataclasses.dataclass(frozen=True)
class Group:
    """Points that differ only in their seeds.

    Attributes:
      values: their common settings, by path.
      mean: of the metric, over finished points with a finite value; NaN if there are none.
      error: the standard error of that mean; NaN for fewer than two points.
      count: number of points in the mean.
    """

    rows: list[Row]
    values: dict[str, Any]
    mean: float
    error: float
    count: int


def read(folder: Path) -> list[Row]:
    """The points of a sweep's folder, in its order. Raises UserError if it is no sweep, or a point is outside of it."""
    points = Folder(folder).points()
    for point in points:
        check_inside(str(folder / point.name), folder / point.name, folder)
    runs = [_run(point, folder / point.name) for point in points]
    axes = {}
    for path in dict.fromkeys(path for point in points for path in point.values):
        values = [point.values.get(path, _value_at(run.config, path)) for point, run in zip(points, runs, strict=True)]
        axes[path] = texts(values)
    rows = []
    for i, (point, run) in enumerate(zip(points, runs, strict=True)):
        step = int(run.rows[-1]["step"]) if run.rows else 0
        begun = f"at step {step}" if step else "not begun"
        state = "finished" if is_finished(run.workdir, point.num_steps) else begun
        rows.append(Row(point.name, state, {path: axes[path][i] for path in axes}, run.last(), run))
    return rows


def _run(point: SweepPoint, workdir: Path) -> Run:
    return read_runs([workdir])[0] if (workdir / METRICS).exists() else Run(point.name, workdir, [], {}, {})


def _value_at(config: Any, path: str) -> Any:
    """The value at a dotted path of a config as JSON. None if there is none."""
    node = config
    for step in re.findall(r"[^.\[\]]+", path):
        if isinstance(node, list) and step.isdecimal() and int(step) < len(node):
            node = node[int(step)]
        elif isinstance(node, dict) and step in node:
            node = node[step]
        else:
            return None
    return node


def texts(values: Sequence[Any]) -> list[Any]:
    """The values of an axis as text: a component as its class, and the settings that differ within that class."""
    by_class: dict[str, list[dict[str, Any]]] = {}
    for value in values:
        if isinstance(value, dict):
            by_class.setdefault(str(value.get("class")), []).append(flatten(value))

    def text(value: Any) -> Any:
        if not isinstance(value, dict):
            return json.dumps(value) if isinstance(value, list) else value
        same = by_class[str(value.get("class"))]
        fields = flatten(value)
        settings = [f"{k}={v}" for k, v in fields.items() if any(other.get(k, ...) != v for other in same)]
        name = str(value.get("class", "")).rpartition(".")[2]
        return f"{name}({', '.join(settings)})" if settings else name

    return [text(value) for value in values]


def metric_of(rows: Sequence[Row], wanted: str | None) -> str:
    """The metric to sort by: the wanted one, else the first evaluation's loss, else the training loss.

    Raises:
      UserError: no point has it.
    """
    known = list(dict.fromkeys(name for row in rows for name in row.metrics))
    if wanted is not None and wanted not in known:
        raise UserError("--sort", "a metric of the runs", wanted, near_misses(wanted, known))
    losses = [name for name in known if name.startswith("eval/") and name.endswith("/loss")]
    return wanted or (losses or ["train/loss"])[0]


def group_seeds(rows: Sequence[Row], metric: str, most: bool = False) -> list[Group]:
    """Points grouped over seeds, best mean first; groups without a mean last.

    Args:
      most: whether larger is better.
    """
    by_values: dict[str, list[Row]] = {}
    for row in rows:
        rest = {path: value for path, value in row.values.items() if path != SEED}
        by_values.setdefault(json.dumps(rest, sort_keys=True), []).append(row)
    groups = [_group(same, metric) for same in by_values.values()]
    return sorted(groups, key=lambda g: math.inf if math.isnan(g.mean) else -g.mean if most else g.mean)


def _group(rows: list[Row], metric: str) -> Group:
    scores = [row.score(metric) for row in rows if row.state == "finished"]
    scores = [score for score in scores if math.isfinite(score)]
    count = len(scores)
    mean = sum(scores) / len(scores) if scores else math.nan
    spread = math.sqrt(sum((x - mean) ** 2 for x in scores) / (count - 1)) if count > 1 else math.nan
    values = {path: value for path, value in rows[0].values.items() if path != SEED or len(rows) == 1}
    return Group(rows, values, mean, spread / math.sqrt(count) if count > 1 else math.nan, count)


def to_json(rows: Sequence[Row], groups: Sequence[Group], metric: str) -> dict[str, Any]:
    """The table as plain JSON, without NaN."""
    points = [
        {"name": row.name, "state": row.state, "values": row.values, "metrics": plain(row.metrics)} for row in rows
    ]
    means = [
        {"values": g.values, "mean": _number(g.mean), "standard_error": _number(g.error), "count": g.count}
        | {"points": [row.name for row in g.rows]}
        for g in groups
    ]
    return {"metric": metric, "points": points, "groups": means}


def _number(value: float) -> float | None:
    return value if math.isfinite(value) else None
