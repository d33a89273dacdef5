"""The settings of a sweep on the terminal: a table, best first, and which of the best values lie at an edge."""

import math
from collections.abc import Sequence
from pathlib import Path

from txjax.log.terminal_table import table
from txjax.numbers import full
from txjax.report.sweep_axes import axes_of, edges
from txjax.report.sweep_table import Group, Row, group_seeds, metric_of, read
from txjax.sweep.names import labels
from txjax.terminal_escape import visible

SHOWN = 10  # settings at the end of a sweep; its report has all


def print_all(folder: Path, rows: Sequence[Row], groups: Sequence[Group], metric: str) -> None:
    """Prints all settings, points averaged over their seeds, and which of the best values lie at an edge.

    Args:
      groups: best first.
    """
    _print(f"{folder}: {sum(row.state == 'finished' for row in rows)} of {len(rows)} points finished", groups, metric)
    _print_edges(groups)


def print_best(folder: Path, metric: str | None = None) -> None:
    """Prints the best settings of a sweep, and which of their values lie at an edge. Nothing if no point has a score.

    Args:
      metric: what ranks the points, the smallest first. If None, the report's.
    """
    rows = read(folder)
    metric = metric or metric_of(rows, None)
    groups = group_seeds(rows, metric)
    scored = [group for group in groups if math.isfinite(group.mean)]
    if not scored:
        return
    _print(f"the best settings, by {metric}", scored[:SHOWN], metric, axes_of(groups))
    if len(groups) > SHOWN:
        print(visible(f"all {len(groups)} settings: txjax report {folder}"))
    _print_edges(groups)


def _print(title: str, groups: Sequence[Group], metric: str, paths: Sequence[str] | None = None) -> None:
    paths = axes_of(groups) if paths is None else paths
    names = [*labels(paths).values(), metric, "standard error", "runs", "unfinished"]
    cells = [_cells(group, paths) for group in groups]
    used = [i for i in range(len(names)) if i <= len(paths) or any(row[i] for row in cells)]  # none without a cell
    table(title, [names[i] for i in used], [[row[i] for i in used] for row in cells])


def _print_edges(groups: Sequence[Group]) -> None:
    for sentence in edges(groups):
        print(visible(sentence))


def _cells(group: Group, paths: Sequence[str]) -> list[str]:
    values = [full(group.values[path]) if path in group.values else "" for path in paths]
    left = [row.state for row in group.rows if row.state != "finished"]
    scores = ["" if math.isnan(x) else full(x) for x in (group.mean, group.error)]
    return [*values, *scores, str(group.count), ", ".join(dict.fromkeys(left))]
