"""txjax scaling ACTION: from a budget to runs, from runs to a law with its uncertainty, and back to a run."""

from txjax.cli import actions

SUMMARY = "plan runs, fit scaling laws to them, predict, compare; check a parametrization"


def run(argv: list[str]) -> int:
    if not argv or argv[0] in ("-h", "--help"):
        print(actions.usage(__name__, "txjax scaling", "ACTION"))
        return 0
    return actions.run(__name__, argv, "txjax scaling")
