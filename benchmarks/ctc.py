"""The loss of CTC, forward and backward from logits: `objectives/ctc.py`'s and PyTorch's.

    OMP_NUM_THREADS=1 taskset -c 0 python benchmarks/ctc.py --clock=cpu [--sizes=8x200x40x32,8x200x40x1000]
        [--contenders=txjax,torch] [--torch=PYTHON] [--rounds=9]

A size is examples x frames x symbols of a text x classes. Every contender runs in its own process, and all take
turns. The table has milliseconds, medians of the rounds, and the median of the ratios of the rounds. `--torch` names a
Python that has torch, if this one has none.
"""

import argparse
import os
import statistics
import sys
from collections.abc import Callable
from typing import Any

import contenders

SIZES = "8x100x20x32,8x200x40x32,8x200x40x1000,4x200x40x5000,4x1500x300x32"
CONTENDERS = "txjax,torch"


def batch_of(size: str) -> tuple[Any, Any]:
    """Logits float32 [B F V] and texts int32 [B U], whose blank is the class 0."""
    import numpy as np

    examples, frames, symbols, classes = map(int, size.split("x"))
    rng = np.random.default_rng(0)
    logits = rng.normal(size=(examples, frames, classes)).astype(np.float32)
    return logits, rng.integers(1, classes, (examples, symbols)).astype(np.int32)


def txjax_work(size: str) -> Callable[[], Any]:
    from txjax.backend import prepare

    prepare()
    import jax
    import jax.numpy as jnp

    from txjax.objectives import ctc_loss

    logits, texts = map(jnp.asarray, batch_of(size))
    frames, lengths = (jnp.full(len(x), x.shape[1], jnp.int32) for x in (logits, texts))
    program = jax.jit(jax.value_and_grad(lambda logits, *texts: ctc_loss(logits, *texts, 0).sum()))
    return lambda: jax.block_until_ready(program(logits, frames, texts, lengths))


def torch_work(size: str) -> Callable[[], Any]:
    import torch

    logits, texts = map(torch.tensor, batch_of(size))
    frames, lengths = (torch.full((len(x),), x.shape[1]) for x in (logits, texts))
    logits.requires_grad_()

    def work() -> Any:
        log_probs = logits.log_softmax(-1).transpose(0, 1)
        loss = torch.nn.functional.ctc_loss(log_probs, texts, frames, lengths, reduction="sum")
        return torch.autograd.grad(loss, logits)

    return work


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sizes", default=SIZES)
    parser.add_argument("--contenders", default=CONTENDERS)
    parser.add_argument("--torch", default=sys.executable, help="a Python that has torch")
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument(
        "--clock", default="wall", choices=tuple(contenders.CLOCKS), help="cpu: for one core of a busy machine"
    )
    parser.add_argument("--worker", help=argparse.SUPPRESS)
    flags = parser.parse_args()
    if flags.worker:
        work = {"txjax": txjax_work, "torch": torch_work}[flags.worker]
        contenders.serve(lambda: (work(flags.sizes), {}), contenders.CLOCKS[flags.clock])
        return
    from txjax.log.terminal_table import table

    names, rows = flags.contenders.split(","), []
    for size in flags.sizes.split(","):
        commands = {}
        for name in names:
            python = flags.torch if name == "torch" else sys.executable
            commands[name] = [python, __file__, f"--worker={name}", f"--sizes={size}", f"--clock={flags.clock}"]
        results, failed = contenders.race(commands, flags.rounds, 3)
        for name, error in failed.items():
            print(f"{size}: {name} failed: {error}", file=sys.stderr)
        seconds = [results[name]["seconds"] if name in results else [] for name in names]
        ratio = f"{contenders.ratio(*seconds):.2f}" if len(seconds) == 2 and all(seconds) else ""
        rows.append([size, *(f"{1e3 * statistics.median(x):.2f}" if x else "" for x in seconds), ratio])
    title = f"milliseconds ({flags.clock}), float32, {os.cpu_count()} cores, {flags.rounds} rounds"
    table(title, ["size", *names, "ratio"], rows)


if __name__ == "__main__":
    main()
