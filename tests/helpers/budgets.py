"""The time that tests take, against what is written down here: the table at the end of .ci/run.

    python tests/helpers/budgets.py FOLDER [SECONDS]

FOLDER has TIER.xml (pytest --junitxml) and TIER.time ("real user sys") of each tier; SECONDS: of all of .ci/run.

Nothing fails for its time: machines differ by half.
"""

import dataclasses
import sys
import xml.etree.ElementTree as ElementTree
from pathlib import Path

# Seconds on two cores with an empty cache. Tiers in one row share theirs.
BUDGETS = {("fast", "mesh"): 700, ("slow",): 400}
WHOLE = 1200
SLOWEST = 10


@dataclasses.dataclass(frozen=True)
class Tier:
    """One session of pytest: seconds, seconds of processors, tests, and the seconds of each."""

    name: str
    seconds: float
    user: float
    tests: dict[str, float]
    skipped: int


def read(folder: Path, name: str) -> Tier:
    """What pytest and the shell wrote of a session."""
    suite = ElementTree.parse(folder / f"{name}.xml").getroot()
    cases = list(suite.iter("testcase"))
    seconds, user, _ = map(float, (folder / f"{name}.time").read_text().split()[-3:])
    tests = {f"{case.get('classname')}::{case.get('name')}": float(case.get("time", 0)) for case in cases}
    return Tier(name, seconds, user, tests, sum(case.find("skipped") is not None for case in cases))


def table(tiers: list[Tier], whole: float | None = None) -> list[str]:
    """Lines to print: each tier, its budget, and the slowest tests of all."""
    found = {tier.name: tier for tier in tiers}
    lines = [f"{'tier':<12}{'tests':>7}{'skipped':>9}{'seconds':>9}{'user':>8}{'budget':>8}"]
    over = []
    for names, budget in BUDGETS.items():
        here = [found[name] for name in names if name in found]
        for tier in here:
            counts = f"{len(tier.tests):>7}{tier.skipped:>9}{tier.seconds:>9.0f}{tier.user:>8.0f}"
            lines.append(f"{tier.name:<12}{counts}{budget if tier is here[-1] else '':>8}")
        if (seconds := sum(tier.seconds for tier in here)) > budget:
            over.append(f"OVER BUDGET: {' + '.join(names)} took {seconds:.0f} s, {budget} s are allowed")
    count = sum(len(tier.tests) for tier in tiers)
    lines.append(f"{'all':<12}{count:>7}" + (f"{whole:>18.0f}{'':>8}{WHOLE:>8}" if whole is not None else ""))
    if whole is not None and whole > WHOLE:
        over.append(f"OVER BUDGET: .ci/run took {whole:.0f} s, {WHOLE} s are allowed")
    slowest = sorted(((s, name) for tier in tiers for name, s in tier.tests.items()), reverse=True)[:SLOWEST]
    return [*lines, *over, "the slowest:", *(f"{seconds:>8.1f} s  {name}" for seconds, name in slowest)]


def main(folder: Path, whole: float | None) -> None:
    names = [name for tier in BUDGETS for name in tier if (folder / f"{name}.xml").is_file()]
    print("\n".join(table([read(folder, name) for name in names], whole)))


if __name__ == "__main__":
    main(Path(sys.argv[1]), float(sys.argv[2]) if len(sys.argv) > 2 else None)
