"""txjax chaos: runs a config under random kills, and compares bit for bit with a run that nothing disturbed."""

import random
import signal

from txjax.cli.resume_trial import Interruption, parser, prove

SUMMARY = "run a config under random kills, and compare bit for bit with an undisturbed run"
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
    return prove(flags, overrides, random.Random(flags.seed).choices(WAYS, k=flags.kills))
