"""txjax average: the mean of several checkpoints of a run, as a workdir of its own (Vaswani et al. 2017, 6.1)."""

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from txjax.cli.parser import Parser

if TYPE_CHECKING:
    from txjax.checkpoint import Store

SUMMARY = "average the last checkpoints of a run"
LAST = 5


def run(argv: list[str]) -> int:
    parser = Parser("average", __doc__)
    parser.add_argument("--workdir", required=True, type=Path, help="the run's folder")
    parser.add_argument("--to", required=True, type=Path, help="the new folder")
    parser.add_argument("--last", type=int, metavar="N", help=f"the newest N checkpoints; default {LAST}")
    parser.add_argument("--steps", metavar="A,B,...", help="the checkpoints of these steps instead")
    flags = parser.parse_args(argv)

    import jax

    from txjax.backend import prepare
    from txjax.checkpoint import Store
    from txjax.checkpoint.stored_weights import mean_weights
    from txjax.io import digest
    from txjax.io.files import replace_text
    from txjax.io.new_folder import check_new, new_folder
    from txjax.train.run.workdir import read_checkpoints, write_manifest

    prepare()
    store = Store(flags.workdir, read_checkpoints(flags.workdir))
    steps = chosen_steps(flags, store)
    check_new("--to", flags.to)
    run = str(flags.workdir.resolve())
    origins = [{"run": run, "step": step, "digest": digest.of_all(store.path(step))} for step in steps]
    weights = mean_weights(store, steps)
    with new_folder("--to", flags.to) as workdir:
        mean = Store(workdir)
        mean.save_parts(steps[-1], {"weights": weights}, {"averaged": origins, "metrics": {}})
        mean.wait()
        count = sum(leaf.size for name in ("params", "frozen") for leaf in jax.tree.leaves(weights[name]))
        write_manifest(workdir, {}, {"parameters": count, "flops_per_step": 0}, origins=origins)
        replace_text(workdir / "config.json", (flags.workdir / "config.json").read_text(encoding="utf-8"))
    print(f"the mean of steps {', '.join(map(str, steps))} of {flags.workdir} in {flags.to}")
    return 0


def chosen_steps(flags: argparse.Namespace, store: "Store") -> list[int]:
    """The steps that the flags name, in order. Raises UserError if there are not so many, or one is damaged."""
    from txjax.errors import UserError

    steps = store.steps() or [store.choose()]  # which raises an error
    if flags.steps is not None:
        if flags.last is not None:
            raise UserError("--last", "no --steps too", flags.last)
        words = flags.steps.split(",")
        if unknown := [word for word in words if word not in map(str, steps)]:
            raise UserError("--steps", f"some of {', '.join(map(str, steps))}", unknown[0])
        steps = sorted({int(word) for word in words})
    else:
        last = LAST if flags.last is None else flags.last
        if not 1 <= last <= len(steps):
            expected = f"1 to {len(steps)}, the number of checkpoints in {flags.workdir}"
            raise UserError("--last", expected, last, hint="checkpoint.keep is how many a run keeps")
        steps = steps[-last:]
    return [store.choose(str(step)) for step in steps]
