"""txjax scaling ladder: plans runs for compute budgets and prints their cost; a sweep reads them from --out."""

import dataclasses
import json
from pathlib import Path
from typing import Any

from txjax.cli.parser import Parser
from txjax.errors import UserError
from txjax.scaling.ladder_rules import Rules

SUMMARY = "plan the runs of a scaling law"


def run(argv: list[str]) -> int:
    parser = Parser("scaling ladder", __doc__)
    parser.add_config()
    parser.add_argument("--budgets", type=_numbers, help="FLOPs, each spent on models of several sizes: 1e16,3e16")
    parser.add_argument("--target", help="FLOPs of a run to predict, or its FILE.py[:variant]: budgets below it")
    parser.add_argument("--num_budgets", type=int, default=4, help="budgets below --target; default 4")
    parser.add_argument("--headroom", type=float, default=10.0, help="--target over the largest budget; default 10")
    parser.add_argument("--ratios", type=_numbers, help="a grid of --widths and of tokens a parameter: 5,10,20,40,80")
    parser.add_argument(
        "--widths", type=_wholes, default=(), help="widths, instead of sizes around the expected best one"
    )
    parser.add_argument("--sizes", type=int, default=5, help="sizes a budget; default 5")
    rules = parser.add_argument_group("rules")
    for field in dataclasses.fields(Rules):
        kind: Any = float if field.default is None else type(field.default)
        rules.add_argument(f"--{field.name}", type=kind, default=field.default, help=f"default {field.default}")
    parser.add_argument("--flops_per_second", type=float, help="speed of the machine, for the hours")
    parser.add_argument("--out", type=Path, help="write the points to this JSON file, for a sweep()")
    parser.add_argument("--json", action="store_true", help="print JSON")
    flags, overrides = parser.parse_known(argv)
    for name in ("num_budgets", "sizes"):
        if getattr(flags, name) < 1:
            raise UserError(f"--{name}", "at least 1", getattr(flags, name))
    if sum(option is not None for option in (flags.budgets, flags.target, flags.ratios)) != 1:
        raise UserError("txjax scaling ladder", "one of --budgets, --target and --ratios", "none or several")
    if flags.ratios and not flags.widths:
        raise UserError("--widths", "widths, with --ratios", "none")

    from txjax import config
    from txjax.experiment import with_default_eval_data
    from txjax.io.files import replace_text
    from txjax.scaling.ladder import Ladder
    from txjax.scaling.ladder_point import point_of

    rules_given = Rules(**{field.name: getattr(flags, field.name) for field in dataclasses.fields(Rules)})
    ladder = Ladder(lambda more: with_default_eval_data(config.load(flags.config, [*overrides, *more])), rules_given)
    if flags.ratios:
        runs = ladder.ratios(flags.widths, flags.ratios)
    else:
        runs = ladder.isoflop(flags.budgets or _budgets_below_target(flags), flags.sizes, flags.widths)
    points = [point_of(ladder_run, ladder.base) for ladder_run in runs]
    total = sum(ladder_run.flops for ladder_run in runs)
    hours = total / flags.flops_per_second / 3600 if flags.flops_per_second else None
    summary = {
        "flops": total,
        "hours": hours,
        "rules": dataclasses.asdict(rules_given),
        "runs": [dataclasses.asdict(ladder_run) | {"off": ladder_run.off} for ladder_run in runs],
        "points": points,
    }
    if flags.out:
        replace_text(
            flags.out, json.dumps({"config": flags.config, "overrides": overrides, **summary}, indent=1) + "\n"
        )
    if flags.json:
        print(json.dumps(summary))
    else:
        _show(runs, total, hours)
    return 0


def _budgets_below_target(flags: Any) -> list[float]:
    """The budgets below `--target`."""
    from txjax import config
    from txjax.experiment import with_default_eval_data
    from txjax.scaling.ladder import budgets_below
    from txjax.train.state.counting import flops_per_step

    try:
        target = float(flags.target)
    except ValueError:
        experiment = with_default_eval_data(config.load(flags.target, []))
        target = float(flops_per_step(experiment)) * experiment.num_steps
    if not target > 0 or not flags.headroom > 1:
        raise UserError("--target", "FLOPs above 0, and a --headroom above 1", f"{target:g}, {flags.headroom:g}")
    return budgets_below(target, flags.num_budgets, flags.headroom)


def _show(runs: list[Any], total: int, hours: float | None) -> None:
    from txjax.log.terminal_table import table

    time = "" if hours is None else f", {hours:.2f} hours"
    rows = [
        [
            f"{r.flops if r.budget is None else r.budget:.3g}",
            f"{r.width} x {r.depth} x {r.heads}",
            _count(r.params),
            _count(r.tokens),
            f"{r.tokens / r.params:.3g}",
            f"{r.steps}",
            f"{r.batch_size}",
            f"{r.lr:.2g}",
        ]
        for r in runs
    ]
    columns = ["FLOPs", "width x depth x heads", "N", "D", "D/N", "steps", "batch", "lr"]
    table(f"{len(runs)} runs, {total:.4g} FLOPs{time}", columns, rows)


def _count(number: float) -> str:
    """`27.1M`: parameters or tokens in three digits."""
    for size, unit in ((1e12, "T"), (1e9, "B"), (1e6, "M"), (1e3, "k")):
        if number >= size:
            return f"{number / size:.3g}{unit}"
    return f"{number:.3g}"


def _numbers(text: str) -> list[float]:
    numbers = [float(word) for word in text.split(",")]
    if not all(0 < number < float("inf") for number in numbers):
        raise ValueError(text)
    return numbers


def _wholes(text: str) -> list[int]:
    numbers = [int(word) for word in text.split(",")]
    if min(numbers) < 1:
        raise ValueError(text)
    return numbers
