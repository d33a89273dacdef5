"""txjax verify: checks that a config resumes exactly. Trains without and with interruptions, and compares every bit."""

import itertools
import signal

from txjax.cli.resume_trial import Interruption, parser, run_and_compare

SUMMARY = "check that a config resumes exactly: an uninterrupted run against one with kills"
WAYS = (
    Interruption("SIGKILL in a save", (signal.SIGKILL,), "save"),
    Interruption("SIGTERM", (signal.SIGTERM,)),
    Interruption("SIGKILL", (signal.SIGKILL,)),
)


def run(argv: list[str]) -> int:
    named = "in turn " + ", ".join(way.name for way in WAYS)
    flags, overrides = parser("verify", __doc__, 3, named).parse_known(argv)
    return run_and_compare(flags, overrides, list(itertools.islice(itertools.cycle(WAYS), flags.kills)))
