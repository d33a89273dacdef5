"""Saving and restoring: throughput, and the host's memory at its peak.

    python benchmarks/checkpoints.py [--width=512] [--depth=8] [--rounds=3]

A decoder's whole training state (parameters and AdamW's moments) is saved with digests, flushed, and restored with
every digest checked. Prints medians; memory is the process's peak above its level before.
"""

import argparse
import resource
import statistics
import tempfile
import time
from pathlib import Path

import jax
import jax.numpy as jnp

from txjax import sharding
from txjax.checkpoint import Checkpoints, Store
from txjax.data import NextTokenWindows
from txjax.experiment import Experiment
from txjax.log.terminal_table import table
from txjax.models.text.decoder.decoder import gpt
from txjax.objectives import NextToken
from txjax.train.state.state import build_layout
from txjax.types import TrainState


def peak() -> float:
    """Largest resident memory of this process so far, MB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3


def with_noise(state: TrainState) -> TrainState:
    """A state whose moments are random, as after some steps; in a new one they are zeros."""
    leaves, structure = jax.tree.flatten(state)
    keys = jax.random.split(jax.random.key(0), len(leaves))
    noisy = [
        x + jax.random.normal(key, x.shape, x.dtype) if jnp.issubdtype(x.dtype, jnp.floating) else x
        for x, key in zip(leaves, keys, strict=True)
    ]
    return jax.tree.unflatten(structure, noisy)


def measure(experiment: Experiment, rounds: int) -> dict[str, float]:
    """Medians in seconds of saving, of what the loop waits for it, and of restoring; bytes of the state and memory."""
    waits, saves, restores = [], [], []
    with sharding.use_mesh(experiment.mesh) as built, tempfile.TemporaryDirectory() as folder:
        layout = build_layout(experiment, built)
        state = jax.block_until_ready(with_noise(layout.create(0)))
        store = Store(Path(folder), Checkpoints(keep=1))
        before = peak()
        for step in range(1, rounds + 1):
            started = time.perf_counter()
            store.save(step, state, {})
            waits.append(time.perf_counter() - started)
            store.wait()
            saves.append(time.perf_counter() - started)
        saved = peak()
        for _ in range(rounds):
            started = time.perf_counter()
            restored = store.restore(layout.abstract)
            jax.block_until_ready(restored)
            restores.append(time.perf_counter() - started)
            del restored
    return {
        "bytes": sum(x.nbytes for x in jax.tree.leaves(state)),
        "wait": statistics.median(waits),
        "save": statistics.median(saves),
        "restore": statistics.median(restores),
        "save_memory": saved - before,
        "restore_memory": peak() - before,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--width", type=int, default=512)
    parser.add_argument("--depth", type=int, default=8)
    parser.add_argument("--rounds", type=int, default=3)
    flags = parser.parse_args()
    model = gpt(vocab=32768, width=flags.width, depth=flags.depth, heads=flags.width // 64)
    experiment = Experiment(
        model=model,
        objective=NextToken(),
        data=NextTokenWindows(name="txjax_python_text", length=128, boundaries=False),
    )
    found = measure(experiment, flags.rounds)
    size, rows = found["bytes"] / 1e6, []
    for name in ("save", "restore"):
        rows.append([name, f"{found[name]:.2f}", f"{size / found[name]:,.0f}", f"{found[f'{name}_memory'] / size:.2f}"])
    title = f"a state of {size:,.0f} MB; the loop waits {found['wait']:.2f} s for a save to begin"
    table(title, ["", "seconds", "MB/s", "peak memory above it / size"], rows)


if __name__ == "__main__":
    main()
