"""Kernels behind `txjax/backend.py` and `txjax/nn`: matrix products by XLA's libraries, and forms of GELU.

    taskset -c 0 python benchmarks/kernels.py [--rounds=15]

One layer of a small ViT: [2080, 192] x [192, 768]. Times are CPU time, the least of all rounds: on one core they mean
something even where the machine is busy. With torch in the environment its products stand beside ours.
"""

import argparse
import importlib.util
import time
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from txjax.log.terminal_table import table
from txjax.nn import ACTIVATIONS

EIGEN = {"xla_cpu_experimental_ynn_fusion_type": "LIBRARY_FUSION_TYPE_REDUCE"}
ROWS, WIDTH, HIDDEN = 2080, 192, 768
GFLOP = 2 * ROWS * WIDTH * HIDDEN / 1e9


def least(call: Callable[[], Any], rounds: int) -> float:
    """CPU seconds of the fastest of several calls."""
    for _ in range(3):
        call()
    seconds = []
    for _ in range(rounds):
        started = time.process_time()
        call()
        seconds.append(time.process_time() - started)
    return min(seconds)


def ours(function: Any, *arrays: np.ndarray, options: dict[str, Any] | None = None, rounds: int) -> float:
    inputs = [jnp.asarray(a) for a in arrays]
    program = jax.jit(function, compiler_options=options or {}).lower(*inputs).compile()
    return least(lambda: jax.block_until_ready(program(*inputs)), rounds)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=15)
    flags = parser.parse_args()
    rng = np.random.default_rng(0)

    def draw(*shape: int) -> np.ndarray:
        return rng.normal(size=shape).astype(np.float32)

    x, w, g, back = draw(ROWS, WIDTH), draw(WIDTH, HIDDEN), draw(ROWS, HIDDEN), draw(HIDDEN, WIDTH)
    bias = draw(1, HIDDEN)
    products = {
        "x w": (lambda x, w: x @ w, x, w),
        "g w^T": (lambda g, w: g @ w.T, g, w),
        "x^T g": (lambda x, g: x.T @ g, x, g),
    }
    columns = {"XLA default": {}, "products by Eigen": EIGEN}
    rows = []
    for name, (function, *arrays) in products.items():
        row = [ours(function, *arrays, options=o, rounds=flags.rounds) for o in columns.values()]
        if importlib.util.find_spec("torch"):
            import torch

            torch.set_num_threads(1)
            inputs = [torch.from_numpy(a) for a in arrays]
            row.append(least(lambda f=function, x=inputs: f(*x), flags.rounds))  # type: ignore[misc]
        rows.append([name, *(f"{GFLOP / seconds:.0f}" for seconds in row)])
    head = [*columns, "PyTorch"][: len(rows[0]) - 1]
    table(f"GFLOP/s of {ROWS} x {WIDTH} x {HIDDEN}, float32", ["product", *head], rows)

    forms = {
        "erfc (jax.nn.gelu)": lambda h: jax.nn.gelu(h, approximate=False),
        "erf (txjax)": ACTIVATIONS["gelu"],
        "tanh": ACTIVATIONS["gelu_tanh"],
    }
    rows = []
    for name, form in forms.items():

        def both(x: jax.Array, w: jax.Array, b: jax.Array, back: jax.Array, form: Any = form) -> Any:
            y, pull = jax.vjp(lambda x, w, b, back: form(x @ w + b) @ back, x, w, b, back)
            return pull(y)

        rows.append([name, f"{1e3 * ours(both, x, 0.1 * w, bias, 0.1 * back, rounds=flags.rounds):.0f}"])
    table("an MLP of that size, forward and backward", ["GELU", "ms"], rows)


if __name__ == "__main__":
    main()
