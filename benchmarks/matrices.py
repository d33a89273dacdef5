"""The gradient of a kernel on a CPU: x^T . g as it stands, and as `nn/parameters/kernel_gradient.py` has it.

    taskset -c 0 python benchmarks/matrices.py [--sizes=512x512x128,2048x2048x512] [--rounds=50]

A size is rows x inputs x features. The table has milliseconds, the least of the rounds.
"""

import argparse
import time
from collections.abc import Callable
from typing import Any


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sizes", default="512x128x512,512x512x128,8192x64x16,1024x3072x768,2048x2048x512")
    parser.add_argument("--rounds", type=int, default=50)
    flags = parser.parse_args()

    from txjax.backend import prepare

    prepare()
    import jax
    import numpy as np

    from txjax.log.terminal_table import table
    from txjax.nn.parameters.kernel_gradient import kernel_gradient

    def as_it_stands(x: jax.Array, gradient: jax.Array) -> jax.Array:
        return x.T @ gradient

    rows = []
    for size in flags.sizes.split(","):
        count, inputs, features = map(int, size.split("x"))
        rng = np.random.default_rng(0)
        arrays = [rng.normal(size=(count, width)).astype(np.float32) for width in (inputs, features)]
        times = [1e3 * least(jax.jit(form), flags.rounds, *arrays) for form in (as_it_stands, kernel_gradient)]
        rows.append([size, *(f"{ms:.2f}" for ms in times), f"{times[1] / times[0]:.2f}"])
    table("rows x inputs x features, float32", ["size", "as it stands", "txjax", "ratio"], rows)


def least(program: Callable[..., Any], rounds: int, *arrays: Any) -> float:
    """Seconds of the fastest of the rounds."""
    import jax

    jax.block_until_ready(program(*arrays))
    seconds = []
    for _ in range(rounds):
        started = time.perf_counter()
        jax.block_until_ready(program(*arrays))
        seconds.append(time.perf_counter() - started)
    return min(seconds)


if __name__ == "__main__":
    main()
