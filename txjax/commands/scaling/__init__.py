"""txjax scaling ACTION: plans runs of a budget, fits laws with intervals to runs, predicts and compares."""

from txjax.cli import dispatch as actions

SUMMARY = "plan runs, fit scaling laws to them, predict, compare; check a parametrization"


def run(argv: list[str]) -> int:
    if not argv or argv[0] in ("-h", "--help"):
        print(actions.usage(__name__, "txjax scaling", "ACTION"))
        return 0
    return actions.run(__name__, argv, "txjax scaling")
