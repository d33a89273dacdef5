"""Convolutions and their gradients on a CPU, in a loop and outside: JAX's, and those of `nn/conv/conv_gradients.py`.

    taskset -c 0 python benchmarks/convolution.py [--images=16x16x16x16] [--taps=3] [--rounds=9]

An image set is images x rows x columns x channels. The table has milliseconds, the least of the rounds, of the outputs
and both gradients of one layer.
"""

import argparse
import functools
import time
from collections.abc import Callable
from typing import Any


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--images", default="16x16x16x16")
    parser.add_argument("--taps", type=int, default=3)
    parser.add_argument("--rounds", type=int, default=9)
    flags = parser.parse_args()

    from txjax.backend import prepare

    prepare()
    import jax
    import numpy as np

    from txjax.log.terminal_table import table
    from txjax.nn.conv import conv_gradients as convolution

    shape = tuple(map(int, flags.images.split("x")))
    rng = np.random.default_rng(0)
    x, kernel = (rng.normal(size=size).astype(np.float32) for size in (shape, (flags.taps,) * 2 + shape[-1:] * 2))
    window = convolution.window_of(x, kernel, (1, 1), "SAME", (1, 1))

    def by_jax(kernel: jax.Array, x: jax.Array) -> Any:
        y, transpose = jax.vjp(functools.partial(convolution.convolve, window), x, kernel)
        return transpose(y)

    def by_txjax(kernel: jax.Array, x: jax.Array) -> Any:
        return convolution.gradients(window, x, kernel, convolution.convolve(window, x, kernel))

    def looped(both: Callable[..., Any]) -> Callable[..., Any]:
        return lambda kernel, x: jax.lax.scan(lambda x, kernel: both(kernel, x), x, kernel[None])

    rows = []
    for name, both in (("jax", by_jax), ("txjax", by_txjax)):
        times = [least(jax.jit(program), flags.rounds, kernel, x) for program in (both, looped(both))]
        rows.append([name, *(f"{1e3 * seconds:.1f}" for seconds in times)])
    table(f"{flags.images}, {flags.taps} x {flags.taps}", ["gradients", "outside", "in a loop"], rows)


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
