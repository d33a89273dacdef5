"""Compares every array of the finished runs of a sweep with that of their base, bit for bit.

python experiments/peft/frozen.py runs/peft/text_seeds --base=runs/mlm_sentences

Prints for each arm how many frozen arrays equal those of the base. Of the trained ones that the base has, none should:
that shows that the comparison finds a difference. Ends with an error if a frozen array differs.
"""

import argparse
import collections
import sys
from pathlib import Path

import jax
import numpy as np
from arm_runs import arm_runs
from flax import traverse_util
from jax.sharding import SingleDeviceSharding

from txjax.checkpoint import Store
from txjax.train.run.workdir import read_checkpoints
from txjax.transfer.match import stored_variables
from txjax.types import flat_paths


def parameters(workdir: Path) -> dict[str, tuple[bool, bytes]]:
    """Whether it is frozen, and the bytes of every parameter at the newest step, by path."""
    store = Store(workdir, read_checkpoints(workdir))
    step = store.steps()[-1]
    stored = stored_variables(store.record(step)["arrays"])["params"]
    device = SingleDeviceSharding(jax.devices()[0])
    wanted = {each.at: jax.ShapeDtypeStruct(each.shape, each.dtype, sharding=device) for each in stored.values()}
    found = flat_paths(store.load_some(step, traverse_util.unflatten_dict(wanted, sep="/")))
    return {path: ("/frozen/" in each.at, np.asarray(found[each.at]).tobytes()) for path, each in stored.items()}


def main(sweep: Path, base: Path) -> int:
    origin = {path: written for path, (_, written) in parameters(base).items()}
    counts = collections.defaultdict[str, collections.Counter](collections.Counter)
    for run in arm_runs(sweep):
        counts[run.arm]["runs"] += 1
        for path, (frozen, written) in parameters(run.workdir).items():
            kind = "frozen" if frozen else "trained" if path in origin and not path.startswith("head/") else "new"
            counts[run.arm][kind] += 1
            counts[run.arm][f"{kind} equal"] += written == origin.get(path)
    for arm, of in counts.items():
        equal = f"{of['frozen equal']} of {of['frozen']} frozen arrays are the base's"
        print(f"{arm}, {of['runs']} runs: {equal}; {of['trained equal']} of its {of['trained']} trained ones")
    total = sum(counts.values(), collections.Counter())
    runs = sum(of["runs"] for of in counts.values() if of["frozen"])
    print(f"{total['frozen equal']} of {total['frozen']} frozen arrays of {runs} runs are the base's, bit for bit")
    return int(total["frozen equal"] < total["frozen"])


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("sweep", type=Path)
    parser.add_argument("--base", type=Path, required=True)
    flags = parser.parse_args()
    sys.exit(main(flags.sweep, flags.base))
