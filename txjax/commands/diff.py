"""txjax diff A B: why two runs differ: config, code, data, versions, environment, and the first step that differs."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from txjax.cli.parser import Parser

if TYPE_CHECKING:
    from txjax.report.runs import Run

SUMMARY = "explain why two runs differ"
MANIFEST = {
    "code": ["git"],
    "data": ["data"],
    "origins": ["init_from"],
    "versions": ["python", "versions"],
    "devices": ["devices"],
    "environment": ["environment"],
    "compiler": ["compiler_options"],
}
FIRST = ("train/batch_hash", "train/loss")  # compared first, since they explain the others


def run(argv: list[str]) -> int:
    parser = Parser("diff", __doc__)
    parser.add_argument("a", metavar="A", type=Path, help="the folder (--workdir) of a run")
    parser.add_argument("b", metavar="B", type=Path, help="the folder of another run")
    parser.add_argument("--json", action="store_true", help="print JSON")
    flags = parser.parse_args(argv)

    from txjax.log.terminal_table import table
    from txjax.report.runs import read_runs

    a, b = read_runs([flags.a, flags.b])
    changes = list(differences(a, b))
    if flags.json:
        print(json.dumps({"a": str(a.workdir), "b": str(b.workdir), "differences": changes}))
    elif changes:
        rows = [[f"{d['kind']}: {d['name']}", str(d.get("step", "")), _cell(d, "a"), _cell(d, "b")] for d in changes]
        table("differences", ["what", "first at step", a.name, b.name], rows)
    else:
        print("no difference")
    return 0


def differences(a: "Run", b: "Run") -> Iterator[dict[str, Any]]:
    """Yields all differences, causes first: dicts of "kind", "name", and "a" and "b" if the run has such a value.

    Metrics have the first common "step" where they differ; clocks and speeds are skipped.
    """
    from txjax.log import plain
    from txjax.tree import diff

    yield from (_difference("config", *difference) for difference in diff(a.config, b.config))
    for kind, keys in MANIFEST.items():
        known = [key for key in keys if key in a.manifest and key in b.manifest]  # an older release noted less
        left, right = ({key: run.manifest[key] for key in known} for run in (a, b))
        yield from (_difference(kind, *difference) for difference in diff(left, right) if {} not in difference)
    rows = {row["step"]: row for row in b.rows}
    pairs = [(plain(row), plain(rows[row["step"]])) for row in a.rows if row["step"] in rows]
    for name in dict.fromkeys([*FIRST, *a.metrics(), *b.metrics()]):
        for left, right in pairs if not name.startswith(("perf/", "goodput")) else []:
            if left.get(name) != right.get(name):
                change = _difference("metrics", name, left.get(name, ...), right.get(name, ...))
                yield change | {"step": left["step"]}
                break


def _difference(kind: str, name: str, a: Any, b: Any) -> dict[str, Any]:
    return {"kind": kind, "name": name} | {side: v for side, v in (("a", a), ("b", b)) if v is not ...}


def _cell(difference: dict[str, Any], side: str) -> str:
    if side not in difference:
        return "(none)"
    value = difference[side]
    return value if isinstance(value, str) else json.dumps(value)
