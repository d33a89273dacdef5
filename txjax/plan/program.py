"""Compiles the train step ahead of time for devices that need not be attached, and reads its memory use."""

import dataclasses
import math
import re
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import jax

from txjax import backend, sharding
from txjax.experiment import Experiment
from txjax.nn.kernels.kernel_choice import choices
from txjax.nn.kernels.kernel_support import cuda_capability
from txjax.plan.hlo import Program
from txjax.plan.target import Target
from txjax.train.state.counting import costliest_batch
from txjax.train.state.state import Layout, build_layout
from txjax.train.step import jit_step
from txjax.types import PyTree

_LOWERED_FOR = {"gpu": "cuda"}  # JAX's name of a platform when it lowers a program for it, if it is another one
_NO_TILES = "Couldn't find output tile sizes"  # XLA's error about a product of which Triton makes no kernel
_UNITS = {"B": 1, "K": 2**10, "M": 2**20, "G": 2**30}


@contextmanager
def laid_out(experiment: Experiment, target: Target) -> Iterator[Layout]:
    """The run's layout on the target; code inside the block is traced for that platform."""
    with (
        backend.target_platform(target.platform),
        cuda_capability(target.capability),
        sharding.use_mesh(experiment.mesh, target.devices) as built,
    ):
        yield build_layout(experiment, built)


@dataclasses.dataclass(frozen=True)
class Compiled:
    """The compiler's results for a step.

    Attributes:
      seconds: time of tracing and compiling.
      temporaries: bytes of one device for temporaries and non-donated outputs.
      code: bytes of the program.
      attention: the attention kernels, and why each was chosen.
      program: the parsed program. None if it needs more memory than a device has.
    """

    seconds: float
    temporaries: int
    code: int
    attention: tuple[str, ...]
    program: Program | None


def compile_step(experiment: Experiment, layout: Layout, platform: str) -> Compiled:
    """Compiles the train step. Call it inside `laid_out`."""
    began = time.perf_counter()
    _, batch = costliest_batch(experiment, layout.variables)
    with choices() as chosen:
        traced = jit_step(experiment, layout).trace(layout.abstract, batch)
        lowered = traced.lower(lowering_platforms=(_LOWERED_FOR.get(platform, platform),))
    attention = tuple(dict.fromkeys(f"{choice.kernel}: {choice.why}" for choice in chosen))
    try:
        compiled = compile_program(lowered)
    except jax.errors.JaxRuntimeError as error:
        needed = re.search(r"temporaries \(([\d.]+)([BKMG])\)", str(error))
        if needed is None:
            raise
        size = round(float(needed[1]) * _UNITS[needed[2]])
        return Compiled(time.perf_counter() - began, size, 0, attention, None)
    memory = compiled.memory_analysis()
    return Compiled(
        time.perf_counter() - began,
        memory.temp_size_in_bytes + memory.output_size_in_bytes - memory.alias_size_in_bytes,
        memory.generated_code_size_in_bytes,
        attention,
        Program(compiled.as_text()),
    )


def compile_program(lowered: jax.stages.Lowered) -> Any:
    """Compiles a program; all its products are cuBLAS's if Triton, XLA's default, has no kernel for one of them."""
    try:
        return lowered.compile()
    except jax.errors.JaxRuntimeError as error:
        if _NO_TILES not in str(error):
            raise
    return lowered.compile(compiler_options={"xla_gpu_enable_triton_gemm": False})


def state_bytes(layout: Layout, experiment: Experiment) -> dict[str, int]:
    """Bytes of the training state and of a batch on one device."""
    state = layout.abstract
    _, batch = costliest_batch(experiment, layout.variables)
    placed = jax.tree.map(lambda x: jax.ShapeDtypeStruct(x.shape, x.dtype, sharding=layout.batch), batch)
    return {
        "parameters": _share((state.params, state.frozen, state.model_state)),
        "moments": _share((state.opt_state, state.step, state.skipped)),
        "averages": _share(state.ema),
        "batch": _share(placed),
    }


def _share(tree: PyTree) -> int:
    """Bytes of a tree on one device, without arrays in host memory."""
    leaves = [x for x in jax.tree.leaves(tree) if not backend.on_host(x.sharding)]
    return sum(math.prod(x.sharding.shard_shape(x.shape)) * x.dtype.itemsize for x in leaves)
