"""txjax checkpoint list|verify: lists the checkpoints of a run, or verifies every file of them."""

import datetime
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from txjax.cli.parser import Parser

if TYPE_CHECKING:
    from txjax.checkpoint import Store

SUMMARY = "list a run's checkpoints, or verify every file of them"


def run(argv: list[str]) -> int:
    parser = Parser("checkpoint", __doc__)
    parser.add_argument("action", choices=("list", "verify"))
    parser.add_argument("--workdir", required=True, type=Path, help="the run's folder")
    parser.add_argument("--json", action="store_true", help="print JSON")
    flags = parser.parse_args(argv)

    from txjax.checkpoint import Store
    from txjax.log.terminal_table import table
    from txjax.train.run.workdir import read_checkpoints

    store = Store(flags.workdir, read_checkpoints(flags.workdir))
    rows = []
    best = store.best()
    for step in store.steps():
        files = [p for p in store.path(step).rglob("*") if p.is_file()]
        row: dict[str, Any] = {
            "step": step,
            "bytes": sum(p.stat().st_size for p in files),
            "saved": datetime.datetime.fromtimestamp(max(p.stat().st_mtime for p in files)).isoformat(" ", "seconds"),
            "best": step == best,
        }
        rows.append(row | ({"faults": _faults(store, step)} if flags.action == "verify" else {}))
    bad = [row for row in rows if row.get("faults")]
    if flags.json:
        print(json.dumps(rows))
    else:
        columns = ["step", "MB", "saved", "best"] + (["files"] if flags.action == "verify" else [])
        lines = [
            [str(r["step"]), f"{r['bytes'] / 1e6:.1f}", str(r["saved"]), "best" if r["best"] else ""] for r in rows
        ]
        if flags.action == "verify":
            for line, row in zip(lines, rows, strict=True):
                line.append("; ".join(row["faults"]) or "good")
        table(f"checkpoints of {flags.workdir}", columns, lines)
    return 1 if bad else 0


def _faults(store: "Store", step: int) -> list[str]:
    """The faults of a step's files, and of what it has in other runs."""
    from txjax.checkpoint.origins import verify
    from txjax.errors import RunError, UserError

    faults = store.faults(step)
    try:
        verify(store.folder.parent, {} if faults else store.record(step))
    except (UserError, RunError) as error:
        return [str(error)]
    return faults
