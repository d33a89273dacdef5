"""txjax chaos: trains a config with random interruptions and compares bit for bit with an uninterrupted run."""

import random
import signal

from txjax.cli.resume_trial import Interruption, parser, run_and_compare

SUMMARY = "train a config with random kills, and compare bit for bit with an uninterrupted run"
WAYS = tuple(
    Interruption(f"{name} {where}".strip(), signals, moment)
    for name, signals in (
        ("SIGKILL", (signal.SIGKILL,)),
        ("SIGTERM", (signal.SIGTERM,)),
        ("SIGSTOP and SIGKILL", (signal.SIGSTOP, signal.SIGKILL)),
    )
    for where, moment in (("early", "start"), ("", "step"), ("in a save", "save"))
)


def run(argv: list[str]) -> int:
    named = "SIGKILL, SIGTERM or SIGSTOP and SIGKILL, while it starts, between rows or in a save, as --seed draws"
    flags, overrides = parser("chaos", __doc__, 10, named).parse_known(argv)
    return run_and_compare(flags, overrides, random.Random(flags.seed).choices(WAYS, k=flags.kills))
