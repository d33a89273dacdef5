"""txjax scaling fit: a scaling law of runs, with intervals, a back-test, and what is doubtful about it."""

import collections
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from txjax.cli.parser import Parser
from txjax.cli.scaling_flags import add_fit, fitted, plain
from txjax.numbers import five_digits

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

    from txjax.io.files import replace_text
    from txjax.scaling.study import parse_point

    points = [parse_point(text) for text in flags.predict]
    found = fitted(flags, points)
    told = plain(found.to_json([found.predict(at) for at in points]))
    if flags.save:
        flags.save.parent.mkdir(parents=True, exist_ok=True)
        replace_text(flags.save, json.dumps(told | {"draws": plain(found.draws)}) + "\n")
    pictures = []
    if flags.plots:
        from txjax.report.scaling_plots import write

        pictures = write(found, flags.plots)
    if flags.json:
        print(json.dumps(told))
    else:
        show(found, told)
        for path in pictures:
            print(path)
    return 0


def show(found: "Study", told: dict[str, Any]) -> None:
    """Prints a law as tables."""
    from txjax.log.terminal_table import table
    from txjax.visible import visible

    spans = told["intervals"]
    unidentified = dict.fromkeys(told["unidentified"], " (unidentified)")
    rows = [
        [name, five_digits(value), five_digits(spans.get(name) or "") + unidentified.get(name, "")]
        for name, value in told["parameters"].items()
    ]
    rows.append(["(objective, summed)", f"{told['objective']:.10g}", ""])
    table(f"{told['form']} of {told['rows_used']} rows", ["parameter", "value", "95%"], rows)
    if "minima" in told:
        names = list(dict.fromkeys(name for m in told["minima"] for name in m if name not in ("rows", "names")))
        by = collections.Counter(m["by"] for m in told["minima"] if "by" in m)
        title = "minima, " + ", ".join(f"{count} by {how}" for how, count in by.items())
        table(title, names, [[five_digits(m.get(name, "")) for name in names] for m in told["minima"]])
    if told["predictions"]:
        names = list(dict.fromkeys(name for p in told["predictions"] for name in p if name != "warning"))
        cells = [[five_digits(p.get(n, "")) for p in told["predictions"]] for n in names]
        columns = ["prediction", *(str(i) for i in range(1, len(told["predictions"]) + 1))]
        table("predictions, with 95% intervals", columns, [[n, *c] for n, c in zip(names, cells, strict=True)])
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
        print(visible(f"left out: {row['row']}: {row['reason']}"))
    for warning in told["warnings"]:
        print(f"warning: {warning}")
