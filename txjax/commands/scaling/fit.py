"""txjax scaling fit: fits a scaling law to runs, with intervals, a back-test and warnings."""

import collections
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from txjax.cli.parser import Parser
from txjax.cli.scaling_flags import add_fit, fit_law, plain
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
    study = fit_law(flags, points)
    law = plain(study.to_json([study.predict(at) for at in points]))
    if flags.save:
        flags.save.parent.mkdir(parents=True, exist_ok=True)
        replace_text(flags.save, json.dumps(law | {"draws": plain(study.draws)}) + "\n")
    pictures = []
    if flags.plots:
        from txjax.report.scaling_plots import write

        pictures = write(study, flags.plots)
    if flags.json:
        print(json.dumps(law))
    else:
        show(study, law)
        for path in pictures:
            print(path)
    return 0


def show(study: "Study", law: dict[str, Any]) -> None:
    """Prints a law as tables."""
    from txjax.log.terminal_table import table
    from txjax.terminal_escape import visible

    spans = law["intervals"]
    unidentified = dict.fromkeys(law["unidentified"], " (unidentified)")
    missing = "not known" if law["no_intervals"] else ""
    rows = [
        [name, five_digits(value), five_digits(spans.get(name) or missing) + unidentified.get(name, "")]
        for name, value in law["parameters"].items()
    ]
    rows.append(["(objective, summed)", f"{law['objective']:.10g}", ""])
    table(f"{law['form']} of {law['rows_used']} rows", ["parameter", "value", "95%"], rows)
    if "minima" in law:
        names = list(dict.fromkeys(name for m in law["minima"] for name in m if name not in ("rows", "names")))
        by = collections.Counter(m["by"] for m in law["minima"] if "by" in m)
        title = "minima, " + ", ".join(f"{count} by {how}" for how, count in by.items())
        table(title, names, [[five_digits(m.get(name, "")) for name in names] for m in law["minima"]])
    if law["predictions"]:
        names = list(dict.fromkeys(name for p in law["predictions"] for name in p if name != "warning"))
        cells = [[five_digits(p.get(n, "")) for p in law["predictions"]] for n in names]
        columns = ["prediction", *(str(i) for i in range(1, len(law["predictions"]) + 1))]
        table("predictions, with 95% intervals", columns, [[n, *c] for n, c in zip(names, cells, strict=True)])
    test = law["backtest"]
    if "refused" in test:
        print(f"back-test: none, {test['refused']}")
    else:
        times = test["largest_held_out"] / test["largest_fitted"]
        print(
            f"back-test: {test['rows']} rows, {times:.3g} times the largest of the others, predicted from these: off "
            f"by {test['mean_absolute_error']:.2%} on average, {test['largest_absolute_error']:.2%} at most"
        )
    for row in law["rows_dropped"]:
        print(visible(f"dropped: {row['row']}: {row['reason']}"))
    for warning in law["warnings"]:
        print(f"warning: {warning}")
