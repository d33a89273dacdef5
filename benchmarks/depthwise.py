"""Depthwise convolutions on a CPU, forward and backward: those of `nn/conv/depthwise.py`, XLA's and PyTorch's.

    OMP_NUM_THREADS=1 taskset -c 0 python benchmarks/depthwise.py --clock=cpu [--sizes=64x14x14x32k7,8x56x56x96k3s2]
        [--contenders=depthwise,shifts,matrices,xla,torch,torch.nchw] [--torch=PYTHON] [--rounds=5]

A size is images x rows x columns x channels, k the kernel's rows and columns, s the stride (1). Every contender
runs in its own process, and all take turns. "depthwise" has the form that is chosen, "torch" images with the channels
last in memory, "torch.nchw" with the channels first. The table has milliseconds, medians of the rounds, of the outputs
and both gradients. `--torch` names a Python that has torch, if this one has none.
"""

import argparse
import functools
import importlib.util
import os
import statistics
import sys
from collections.abc import Callable
from typing import Any

import contenders

SIZES = (
    "64x14x14x32k3,64x14x14x32k7,64x7x7x64k7,64x28x28x48k3,64x28x28x48k7,8x56x56x96k3,8x56x56x96k3s2,8x56x56x96k7,"
    "64x14x14x32k13,64x7x7x64k13,64x14x14x32k27,16x28x28x48k31"
)
CONTENDERS = "depthwise,shifts,matrices,xla,torch,torch.nchw"
LARGEST = 28 * 28  # positions of images as matrices: of 56 x 56 with 96 channels they would have 3.8 GB


def parsed(size: str) -> tuple[tuple[int, ...], int, int]:
    """Shape of the images, taps of a row, stride."""
    image, _, kernel = size.partition("k")
    taps, _, stride = kernel.partition("s")
    return tuple(map(int, image.split("x"))), int(taps), int(stride or 1)


def txjax_work(form: str, size: str) -> Callable[[], Any]:
    from txjax.backend import prepare

    prepare()
    import jax
    import jax.numpy as jnp
    import numpy as np

    from txjax.nn.conv import conv_gradients as convolution
    from txjax.nn.conv import depthwise

    shape, taps, stride = parsed(size)
    if form == "matrices" and shape[1] * shape[2] > LARGEST:
        raise ValueError(f"matrices of images of {shape[1]} x {shape[2]} are too large")
    rng = np.random.default_rng(0)
    x, kernel = (jnp.asarray(rng.normal(size=s), jnp.float32) for s in (shape, (taps, taps, 1, shape[-1])))
    window = convolution.window_of(x, kernel, (stride,) * 2, [(taps // 2, taps // 2)] * 2, (1, 1))
    chosen = depthwise.choose(x, kernel) if form == "depthwise" else getattr(depthwise, form.upper())

    def both(x: jax.Array, kernel: jax.Array, gradient: jax.Array) -> Any:
        of_x, of_kernel = (f(window, x, kernel, gradient) for f in (chosen.of_x, chosen.of_kernel))
        return chosen.outputs(window, x, kernel), of_x, of_kernel

    gradient = jnp.ones(jax.eval_shape(functools.partial(chosen.outputs, window), x, kernel).shape)
    program = jax.jit(both)
    return lambda: jax.block_until_ready(program(x, kernel, gradient))


def torch_work(last: bool, size: str) -> Callable[[], Any]:
    import torch

    (images, rows, columns, channels), taps, stride = parsed(size)
    x = torch.randn(images, channels, rows, columns)
    x = x.contiguous(memory_format=torch.channels_last if last else torch.contiguous_format).requires_grad_()
    kernel = torch.randn(channels, 1, taps, taps, requires_grad=True)

    def outputs() -> torch.Tensor:
        return torch.nn.functional.conv2d(x, kernel, stride=stride, padding=taps // 2, groups=channels)

    gradient = torch.ones_like(outputs())
    return lambda: torch.autograd.grad(outputs(), (x, kernel), gradient)


def work(contender: str, size: str) -> tuple[Callable[[], Any], dict[str, Any]]:
    """The outputs and both gradients by a contender."""
    if contender.startswith("torch"):
        return torch_work(contender == "torch", size), {}
    return txjax_work(contender, size), {}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sizes", default=SIZES)
    parser.add_argument("--contenders", default=CONTENDERS)
    parser.add_argument("--torch", default=sys.executable, help="a Python that has torch")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument(
        "--clock", default="wall", choices=tuple(contenders.CLOCKS), help="cpu: for one core of a busy machine"
    )
    parser.add_argument("--worker", help=argparse.SUPPRESS)
    flags = parser.parse_args()
    if flags.worker:
        contenders.serve(lambda: work(flags.worker, flags.sizes), contenders.CLOCKS[flags.clock])
        return
    from txjax.log.terminal_table import table

    names, rows = flags.contenders.split(","), []
    if flags.torch == sys.executable and not importlib.util.find_spec("torch"):
        names = [name for name in names if not name.startswith("torch")]
    for size in flags.sizes.split(","):
        commands = {}
        for name in names:
            python = flags.torch if name.startswith("torch") else sys.executable
            commands[name] = [python, __file__, f"--worker={name}", f"--sizes={size}", f"--clock={flags.clock}"]
        found, failed = contenders.race(commands, flags.rounds, 1)
        for name, error in failed.items():
            print(f"{size}: {name} failed: {error}", file=sys.stderr)
        times = [statistics.median(found[name]["seconds"]) if name in found else None for name in names]
        rows.append([size, *("" if seconds is None else f"{1e3 * seconds:.2f}" for seconds in times)])
    title = f"milliseconds ({flags.clock}), float32, {os.cpu_count()} cores, {flags.rounds} rounds"
    table(title, ["images", *names], rows)


if __name__ == "__main__":
    main()
