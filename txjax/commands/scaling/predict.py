"""txjax scaling predict: predicts a run or the best run of a budget; --register saves it before the run begins."""

import json
from pathlib import Path

from txjax.cli.parser import Parser
from txjax.cli.scaling_flags import add_fit, fit_law, plain
from txjax.numbers import five_digits

SUMMARY = "predict a run or a budget, and register the prediction"


def run(argv: list[str]) -> int:
    parser = Parser("scaling predict", __doc__)
    add_fit(parser)
    parser.add_argument(
        "--at", required=True, help="params=1e9,tokens=2e10, or flops=1e21 for the best run of a budget"
    )
    parser.add_argument(
        "--register", type=Path, metavar="FILE", help="save the prediction: RUN/prediction.json is scored by report"
    )
    parser.add_argument("--metric", default="eval/valid/loss", help="metric of the run that a report compares")
    flags = parser.parse_args(argv)

    from txjax.log.terminal_table import table
    from txjax.scaling.preregistration import register
    from txjax.scaling.study import parse_point

    at = parse_point(flags.at, "--at")
    study = fit_law(flags, [at])
    prediction = plain(study.predict(at))
    law = plain(study.to_json([prediction]))
    if flags.register:
        register(flags.register, prediction, law, flags.metric)
    if flags.json:
        print(json.dumps(law | {"registered": str(flags.register) if flags.register else None}))
        return 0
    rows = [[name, five_digits(value)] for name, value in prediction.items()]
    table(f"{law['form']} of {law['rows_used']} rows", ["prediction", ""], rows)
    for warning in law["warnings"]:
        print(f"warning: {warning}")
    if flags.register:
        print(flags.register)
    return 0
