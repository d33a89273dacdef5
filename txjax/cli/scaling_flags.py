"""The flags of a fit of a scaling law, and the fit."""

import argparse
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from txjax.cli.parser import Parser
from txjax.errors import UserError

if TYPE_CHECKING:
    from txjax.scaling.study import Study


def add_fit(parser: Parser) -> None:
    """Adds the flags of a fit."""
    parser.add_argument("--data", required=True, type=Path, help="a CSV or JSONL file, or a folder of runs")
    parser.add_argument("--form", default="parametric", help="parametric, isoflop, envelope, kaplan, overtraining, ...")
    parser.add_argument("--columns", default="", help="params=COL,tokens=COL,flops=COL,loss=COL,unique_tokens=COL,...")
    parser.add_argument("--where", default="", help="only these rows: COL=VALUE,...; also != < <= > >= and A|B")
    parser.add_argument("--drop_largest_losses", type=int, default=0, metavar="K", help="leave out K rows")
    parser.add_argument(
        "--loss", choices=("huber", "lad", "mse"), help="loss of the residuals; default: that of the form's paper"
    )
    parser.add_argument("--delta", type=float, default=1e-3, help="where huber turns from quadratic to linear")
    parser.add_argument("--fix", default="", help="fixed parameters: E=1.8,A=400")
    parser.add_argument("--tie", default="", help="parameters set equal: alpha=beta")
    parser.add_argument(
        "--breaks", type=int, help="of a broken law; default: the number that predicts the largest runs best"
    )
    parser.add_argument(
        "--minima", choices=("parabola", "akima"), help="of isoflop; default: parabola, akima where that has none"
    )
    parser.add_argument(
        "--keep_edges", action="store_true", help="of isoflop: keep budgets whose best size is the smallest or largest"
    )
    parser.add_argument(
        "--bootstrap", type=int, default=1000, metavar="N", help="bootstrap draws for the intervals; 0: none"
    )
    parser.add_argument("--seed", type=int, default=0, help="seed of the draws")
    parser.add_argument("--jobs", type=int, help="processes for the draws; default: one a core")
    parser.add_argument("--json", action="store_true", help="print JSON")


def fit_law(flags: argparse.Namespace, points: Sequence[Mapping[str, float]] = ()) -> "Study":
    """Fits the law that the flags describe; it can predict `points`. Raises UserError."""
    from txjax.scaling.forms import form_named
    from txjax.scaling.study import parse_numbers, study
    from txjax.scaling.table import read_table

    for name in ("bootstrap", "seed"):
        if getattr(flags, name) < 0:
            raise UserError(f"--{name}", "0 or more", getattr(flags, name))
    if flags.jobs is not None and flags.jobs < 1:
        raise UserError("--jobs", "1 or more", flags.jobs)
    curves = flags.form == "envelope"
    table = read_table(flags.data, flags.columns, flags.where, flags.drop_largest_losses, curves)
    fix = parse_numbers(flags.fix, "--fix") if flags.fix else {}
    edges = ("edge",) if flags.keep_edges else ()
    form = form_named(
        flags.form, table, flags.loss, flags.delta, fix, _pairs(flags.tie), flags.breaks, flags.minima, edges
    )
    return study(form, table, flags.bootstrap, flags.seed, flags.jobs, points)


def _pairs(text: str) -> tuple[tuple[str, str], ...]:
    pairs = []
    for part in filter(None, text.split(",")):
        a, equals, b = (word.strip() for word in part.partition("="))
        if not equals or not b or a == b:
            raise UserError("--tie", "NAME=NAME", part)
        pairs.append((a, b))
    return tuple(pairs)


def plain(value: Any) -> Any:
    """The value with infinities and NaN replaced by None, as standard JSON requires."""
    return json.loads(json.dumps(value), parse_constant=lambda name: None)
