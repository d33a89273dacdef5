"""txjax compare A B: whether the scores of two runs on the same examples differ by more than chance.

It reads the results of each example that `txjax evaluate` wrote, and computes them first where there are none. The two
runs' examples are resampled together; shares of right examples have McNemar's test. It says nothing of other seeds.
"""

import argparse
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from txjax.cli.load_run import STEP, read
from txjax.cli.parser import Parser
from txjax.cli.scoring import stored_or_scored
from txjax.terminal_escape import visible

if TYPE_CHECKING:
    from txjax.eval.evaluator import Evaluator
    from txjax.eval.results import Rows
    from txjax.experiment import Experiment

SUMMARY = "say whether the scores of two runs differ by more than chance"


def run(argv: list[str]) -> int:
    parser = Parser("compare", __doc__)
    parser.add_argument("a", metavar="A", type=Path, help="the folder (--workdir) of a run")
    parser.add_argument("b", metavar="B", type=Path, help="the folder of another run, or the same")
    parser.add_argument("--eval", metavar="NAME", help="one evaluation; default: all that both runs have")
    parser.add_argument("--step", default="last", help=STEP)
    parser.add_argument("--step_b", help="of B, if it is another")
    parser.add_trust()
    parser.add_argument("--json", action="store_true", help="print JSON")
    flags = parser.parse_args(argv)

    from txjax.errors import UserError
    from txjax.log.terminal_table import table

    steps = flags.step, flags.step_b or flags.step
    folders = zip((flags.a, flags.b), steps, strict=True)
    sides = [argparse.Namespace(workdir=folder, step=step, trust=flags.trust) for folder, step in folders]
    experiments = [read(side) for side in sides]
    names = _names(flags.eval, *experiments)
    sides_scored = [stored_or_scored(side, run, names) for side, run in zip(sides, experiments, strict=True)]
    compared = {
        name: _comparison(
            name, *((run.evals[name], s.results[name]) for run, s in zip(experiments, sides_scored, strict=True))
        )
        for name in names
        if all(name in scored.results for scored in sides_scored)
    }
    if not any(comparison["metrics"] for comparison in compared.values()):
        expected = "an evaluation with a score of the results of each example, in both runs"
        raise UserError("--eval", expected, ", ".join(names), hint="docs/evaluation.md lists those without")
    runs = {letter: (side.workdir, s.step) for letter, side, s in zip("AB", sides, sides_scored, strict=True)}
    if flags.json:
        summary = {letter.lower(): {"workdir": str(folder), "step": step} for letter, (folder, step) in runs.items()}
        print(json.dumps(summary | {"evaluations": compared}))
        return 0
    for letter, (folder, step) in runs.items():
        print(visible(f"{letter}: {folder}, step {step}"))
    for name, comparison in compared.items():
        print()
        title = f"{name}: {comparison['examples']:,} examples of {comparison['data']} {comparison['split']}"
        rows = [[metric, *_cells(difference)] for metric, difference in comparison["metrics"].items()]
        table(title, ["metric", "A", "B", "B - A [95% interval]", "p", "test"], rows)
        for metric, difference in comparison["metrics"].items():
            is_real = "is" if difference["distinguishable"] else "is not"
            print(visible(f"{metric}: the difference {is_real} distinguishable from chance at 5%"))
    return 0


def _names(chosen: str | None, a: "Experiment", b: "Experiment") -> list[str]:
    """The evaluations to compare."""
    from txjax.errors import UserError, near_misses

    common = [name for name in a.evals if name in b.evals]
    if not common:
        raise UserError("B", f"an evaluation of a name that A has: {', '.join(a.evals)}", ", ".join(b.evals))
    if chosen is not None and chosen not in common:
        raise UserError("--eval", f"one of {', '.join(common)}", chosen, near_misses(chosen, common))
    return common if chosen is None else [chosen]


def _comparison(name: str, a: "tuple[Evaluator, Rows]", b: "tuple[Evaluator, Rows]") -> dict[str, Any]:
    """The data that both results are of, and the differences of their scores.

    Raises:
      UserError: they are of different examples.
    """
    import numpy as np

    from txjax.data.loading.default_eval_data import names_and_splits
    from txjax.errors import UserError
    from txjax.eval.comparison import differences
    from txjax.eval.results import GIVEN, ID

    sets = [names_and_splits(evaluator.data) for evaluator, _ in (a, b)]
    sizes = [len(rows[ID]) for _, rows in (a, b)]
    same = [np.array_equal(a[1][key], b[1][key]) for key in (ID, GIVEN)]
    if sets[0] != sets[1] or not all(same):
        words = [f"{size:,} of {' '.join(set_names)}" for size, set_names in zip(sizes, sets, strict=True)]
        others = "" if words[0] != words[1] else " with other labels or targets" if same[0] else ", others of them"
        hint = "--eval=NAME compares another evaluation"
        raise UserError(f"{name} of B", f"the examples of A, {words[0]}", f"{words[1]}{others}", hint=hint)
    by_metric = differences(*((evaluator.rescore, rows) for evaluator, rows in (a, b)))
    return {"data": sets[0][0], "split": sets[0][1], "examples": sizes[0]} | {
        "metrics": {
            metric: {
                "a": difference.a,
                "b": difference.b,
                "difference": difference.b - difference.a,
                "interval": [difference.low, difference.high],
                "p": difference.p,
                "test": difference.test,
                "distinguishable": difference.is_significant,
            }
            for metric, difference in by_metric.items()
        }
    }


def _cells(row: dict[str, Any]) -> list[str]:
    low, high = row["interval"]
    difference = f"{row['difference']:+.4f} [{low:+.4f}, {high:+.4f}]"
    return [f"{row['a']:.4f}", f"{row['b']:.4f}", difference, f"{row['p']:.3g}", row["test"]]
