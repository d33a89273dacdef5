"""txjax list [FOLDER...]: the runs in folders, each with its step, its time and its score.

    txjax list                   runs below the folder `runs`
    txjax list runs/a /shared    below others; a sweep's folder has a run for each point

The configs that come with txjax are listed by `txjax configs`.
"""

import json
import os
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from txjax.cli.parser import Parser
from txjax.errors import UserError

if TYPE_CHECKING:
    from txjax.report.runs import Run

LATEST = 2**32  # seconds since 1970: a later time is a clock's fault
SUMMARY = "the runs in folders, each with its step, its time and its score"


def run(argv: list[str]) -> int:
    parser = Parser("list", __doc__)
    parser.add_argument("folders", nargs="*", metavar="FOLDER", type=Path, default=[Path("runs")])
    parser.add_argument("--json", action="store_true", help="print JSON")
    flags = parser.parse_args(argv)
    for folder in flags.folders:
        if not folder.is_dir():
            raise UserError("FOLDER", "a folder with runs", str(folder))
    workdirs = [path for folder in flags.folders for path in find_workdirs(folder)]
    if not workdirs:
        raise UserError("FOLDER", "a folder with runs", " ".join(map(str, flags.folders)))
    entries = [describe(path) for path in dict.fromkeys(workdirs)]
    if flags.json:
        print(json.dumps(entries))
        return 0

    from txjax.log.terminal_table import table
    from txjax.numbers import full

    columns = ("run", "step", "of", "last row, UTC", "metric", "value")
    table("", columns, (["" if cell is None else full(cell) for cell in entry.values()] for entry in entries))
    return 0


def find_workdirs(folder: Path) -> Iterator[Path]:
    """The folders of runs, in the order of their names. Folders inside of a run and links are not searched."""
    for path, folders, files in os.walk(folder):
        folders.sort()
        if "metrics.jsonl" in files:
            folders.clear()
            yield Path(path)


def describe(workdir: Path) -> dict[str, Any]:
    """The cells of a run, None for what it has not: of one that can't be read, why."""
    from txjax.log import plain
    from txjax.report.runs import read_runs

    cells: dict[str, Any] = dict.fromkeys(("run", "step", "num_steps", "last_row", "metric", "value"))
    cells["run"] = str(workdir)
    try:
        (one,) = read_runs([workdir])
    except UserError as error:
        return cells | {"metric": "unreadable", "value": str(error)}
    cells["num_steps"] = one.config.get("num_steps")
    if one.rows:
        name = metric_of(one)
        seconds = one.rows[-1].get("time")
        if isinstance(seconds, float) and 0 <= seconds < LATEST:
            cells["last_row"] = f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%d %H:%M}"
        cells |= {"step": one.rows[-1]["step"], "metric": name, "value": plain(one.last()).get(name)}
    return cells


def metric_of(one: "Run") -> str:
    """The metric by which the run keeps its best checkpoint, or the first loss of its evaluations, or of training."""
    checkpoint = one.config.get("checkpoint")
    best = checkpoint.get("best") if isinstance(checkpoint, dict) else None
    names = one.metrics()
    losses = [name for name in names if name.startswith("eval/") and name.endswith("/loss")]
    return next((name for name in (best, *losses) if name in names), "train/loss")
