"""txjax data ACTION: what is in files that a run is to read."""

from txjax.cli import dispatch as actions

SUMMARY = "look at files before a run reads them"


def run(argv: list[str]) -> int:
    if not argv or argv[0] in ("-h", "--help"):
        print(actions.usage(__name__, "txjax data", "ACTION"))
        return 0
    return actions.run(__name__, argv, "txjax data")
