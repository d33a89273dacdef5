"""txjax verify: proves that a config resumes exactly. Trains it straight and with kills, and compares every bit."""

import itertools
import signal

from txjax.cli.resume_trial import Interruption, parser, prove

SUMMARY = "prove that a config resumes exactly: a straight run against one with kills"
WAYS = (
    Interruption("SIGKILL in a save", (signal.SIGKILL,), "save"),
    Interruption("SIGTERM", (signal.SIGTERM,)),
    Interruption("SIGKILL", (signal.SIGKILL,)),
)


def run(argv: list[str]) -> int:
    named = "in turn " + ", ".join(way.name for way in WAYS)
    flags, overrides = parser("verify", __doc__, 3, named).parse_known(argv)
    return prove(flags, overrides, list(itertools.islice(itertools.cycle(WAYS), flags.kills)))
