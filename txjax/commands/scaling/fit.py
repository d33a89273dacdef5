"""txjax scaling fit: a scaling law of runs, with intervals, a back-test, and what is doubtful about it."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from txjax.commands.parser import Parser
from txjax.commands.scaling.flags import add_fit, fitted, plain, short, span

if TYPE_CHECKING:
    from txjax.scaling.study import Study

SUMMARY = "fit a law to a table or a folder of runs"


def run(argv: list[str]) -> int:
    parser = Parser("scaling fit", __doc__)
    add_fit(parser)
    parser.add_argument(
        "--predict", action="append", default=[], metavar="AT", help="params=1e9,tokens=2e10 or flops=1e21"
    )
    parser.add_argument("--plots", type=Path, metavar="DIR", help="write pictures there, PNG and SVG")
    parser.add_argument("--save", type=Path, metavar="FILE", help="write the law with all draws, for `scaling compare`")
    flags = parser.parse_args(argv)

    from txjax.files import replace_text
    from txjax.scaling.study import parse_point

    points = [parse_point(text) for text in flags.predict]
    found = fitted(flags)
    told = plain(found.to_json([found.predict(at) for at in points]))
    if flags.save:
        flags.save.parent.mkdir(parents=True, exist_ok=True)
        replace_text(flags.save, json.dumps(told | {"draws": plain(found.draws)}) + "\n")
    pictures = []
    if flags.plots:
        from txjax.commands.scaling.plots import write

        pictures = write(found, flags.plots)
    if flags.json:
        print(json.dumps(told))
    else:
        show(found, told)
        print("\n".join(str(path) for path in pictures))
    return 0


def show(found: "Study", told: dict[str, Any]) -> None:
    """Prints a law as tables."""
    from txjax.log.table import table

    spans = told["intervals"]
    rows = [[name, short(value), span(spans.get(name))] for name, value in told["parameters"].items()]
    objective = f"objective {told['objective']:.10g}"
    table(f"{told['form']} of {told['rows_used']} rows, {objective}", ["parameter", "value", "95%"], rows)
    if "minima" in told:
        names = ("flops", "params", "tokens", "loss", "params_interpolated")
        lines = [[*(short(m[n]) if m.get(n) else "" for n in names), m.get("problem", "")] for m in told["minima"]]
        table("minima", ["FLOPs", "N", "D", "loss", "N by a spline", ""], lines)
    if told["predictions"]:
        lines = [
            [*(short(p.get(n, "")) for n in ("flops", "params", "tokens", "loss")), span(p.get("interval"))]
            for p in told["predictions"]
        ]
        table("predictions", ["FLOPs", "N", "D", "loss", "95%"], lines)
    test = told["backtest"]
    if "refused" in test:
        print(f"back-test: none, {test['refused']}")
    else:
        times = test["largest_held_out"] / test["largest_fitted"]
        print(
            f"back-test: {test['rows']} rows, {times:.3g} times the largest of the others, foretold from these: off by "
            f"{test['mean_absolute_error']:.2%} on average, {test['largest_absolute_error']:.2%} at most"
        )
    for row in told["rows_dropped"]:
        print(f"left out: {row['row']}: {row['reason']}")
    for warning in told["warnings"]:
        print(f"warning: {warning}")
