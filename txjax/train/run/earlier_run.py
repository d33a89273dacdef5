"""What an earlier run left in a workdir that has none of its checkpoints: kept under other names, not written over."""

import itertools
import logging
from pathlib import Path

from txjax.errors import join_names
from txjax.log import METRICS

log = logging.getLogger("txjax")
# What a run from scratch would write over, besides metrics.jsonl, which `log` keeps in the same way.
NAMES = (
    "config.json",
    "manifest.json",
    "transfer.json",
    "curves.png",
    "tensorboard",
    "trackers",
    "examples",
    "pictures",
    "samples",
    "tables",
)


def keep_earlier_run(workdir: Path) -> None:
    """Renames the notes and products of a run that has logged rows to `NAME.before-N`, where no such name is taken yet.

    Call it where a run starts from scratch, before it writes anything.
    """
    path = workdir / METRICS
    names = [name for name in NAMES if (workdir / name).exists()]
    if not names or not path.exists() or not path.stat().st_size:
        return
    taken = (any((workdir / f"{name}.before-{n}").exists() for name in (*NAMES, METRICS)) for n in itertools.count(1))
    number = next(n for n, is_taken in enumerate(taken, start=1) if not is_taken)
    for name in names:
        (workdir / name).rename(workdir / f"{name}.before-{number}")
    log.warning("%s of the run before are kept as NAME.before-%d", join_names(names, len(names)), number)
