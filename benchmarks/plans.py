"""Plans of full-size models for slices of TPU pods and for GPUs, as rows of docs/plan.md. Needs 'txjax[plan]', for GPUs
'txjax[plan-gpu]', and no such device.

    python benchmarks/plans.py [--only=llama]

The plans are the `PLANS` of configs: the name of a row, a variant, a slice, and flags without their `--config.`. Every
row is one `txjax plan --json` in its own process; some compile for minutes. It takes the place of the row with its name
and slice in docs/plan.md, or is a new one.
"""

import argparse
import ast
import json
import os
import re
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "plan.md"
TABLE = re.compile(r"(?<=<!-- rows, measured by benchmarks/plans.py -->\n).*?(?=\n<!-- end -->)", re.DOTALL)
COLUMNS = "model|slice|flags|parameters|FLOPs an update|memory a device|sent, / least|step at best|MFU at best"
COLUMNS += "|attention, kernels a step|compiled in"
HEAD = ["| " + " | ".join(COLUMNS.split("|")) + " |", "|---" * len(COLUMNS.split("|")) + "|"]


class Plan(NamedTuple):
    """A plan of a config. `key` is the beginning of its row, which says what was compiled."""

    config: str
    name: str
    slice: str
    flags: tuple[str, ...]

    @property
    def key(self) -> str:
        flags = f"`{' '.join(self.flags)}` " if self.flags else ""
        return f"| {self.name} | {self.slice} | {flags}|"


def all_plans() -> list[Plan]:
    """The plans of all configs, which are not imported."""
    plans = []
    for path in sorted((ROOT / "configs").rglob("*.py")):
        for statement in ast.parse(path.read_text(encoding="utf-8")).body:
            if isinstance(statement, ast.Assign) and ast.unparse(statement.targets[0]) == "PLANS":
                for name, variant, slice_, flags in ast.literal_eval(statement.value):
                    config = path.relative_to(ROOT).as_posix() + (variant and f":{variant}")
                    plans.append(Plan(config, name, slice_, flags))
    return plans


def compile_plan(plan: Plan, variables: Mapping[str, str] | None = None) -> dict[str, Any]:
    """What `txjax plan --json` prints, with some environment variables.

    Raises:
      RuntimeError: it printed nothing; with the last line of its errors.
    """
    flags = [f"--config.{flag}" for flag in plan.flags]
    words = [sys.executable, "-m", "txjax", "plan", f"--config={plan.config}", f"--topology={plan.slice}", *flags]
    environment = os.environ | dict(variables or {})
    done = subprocess.run([*words, "--json"], cwd=ROOT, capture_output=True, encoding="utf-8", env=environment)
    if not done.stdout:
        raise RuntimeError(done.stderr.strip().splitlines()[-1])
    return json.loads(done.stdout.splitlines()[0])


def row(plan: Plan) -> str:
    """The row of a plan, or what went wrong."""
    try:
        result = compile_plan(plan)
    except RuntimeError as error:
        return f"{plan.key} failed: {error} |"
    sent, least = result["collective_bytes_per_step"], result["collective_bytes_minimum"]
    estimated = " (estimated)" if result["step_estimate"] else ""
    cells = [
        f"{result['params']:,}",
        f"{result['flops_per_step']:.3e}",
        f"{result['bytes_per_device'] / 2**30:.1f} of {result['device_memory'] / 2**30:.0f} GiB"
        + ("" if result["fits"] else " (too much)"),
        f"{sent / 2**30:.2f} GiB / {sent / least:.2f}" if least else "nothing",
        f"{result['step_seconds']:.3f} s{estimated}",
        f"{result['mfu']:.0%}{estimated}",
        f"{(result['attention'] or ['none'])[0].partition(':')[0]}, {result['kernels']}",
        f"{result['compile_seconds']:.0f} s",
    ]
    return f"{plan.key} {' | '.join(cells)} |"


def rows_of(page: str) -> list[str]:
    """The rows of the page, without the two lines of the table's head."""
    return TABLE.findall(page)[0].splitlines()[2:]


def with_row(page: str, line: str) -> str:
    """The page with a row in place of the one with the same name and slice, or as the last one."""
    first = line.split(" | ")[:2]
    rows = rows_of(page)
    same = [number for number, other in enumerate(rows) if other.split(" | ")[:2] == first]
    rows = [line if number in same else other for number, other in enumerate(rows)] + [line] * (not same)
    return TABLE.sub(lambda _: "\n".join([*HEAD, *rows]), page)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", default="", help="a part of the model's name")
    parser.add_argument("--slice", default="", help="a part of the slice's name")
    flags = parser.parse_args()
    for plan in all_plans():
        if flags.only in plan.name and flags.slice in plan.slice:
            line = row(plan)
            print(line, flush=True)
            if " failed: " not in line:
                PAGE.write_text(with_row(PAGE.read_text(encoding="utf-8"), line), encoding="utf-8")


if __name__ == "__main__":
    main()
