"""What depends on the backend, in one place: how a process is set up, programs are compiled, layers are looped.

`docs/performance.md` gives the measurements behind each choice.
"""

import ctypes
import functools
import os
import sys
from pathlib import Path
from typing import Any

import jax

# XLA's CPU compiler hands products of matrices to a library (YNN) that is slower at them than its own Eigen kernels,
# and sums to the same library, which is faster at those.
_CPU_OPTIONS = {"xla_cpu_experimental_ynn_fusion_type": "LIBRARY_FUSION_TYPE_REDUCE"}
_UNROLLED = 12  # layers: beyond, compiling takes longer than the steps save


def prepare(programs: Path) -> list[str]:
    """Sets this process up for training on its backend. Returns what was set, and what switches it off.

    Args:
      programs: the folder that keeps compiled programs.
    """
    set_here = []
    if os.environ.get("TXJAX_KEEP_MEMORY") != "0" and _keep_memory():  # before JAX starts its threads
        set_here.append("freed memory is kept for the next step (off: TXJAX_KEEP_MEMORY=0)")
    several_on_cpu = jax.default_backend() == "cpu" and jax.local_device_count() > 1
    # Where one CPU plays several devices, programs that come from the disk deadlock in their collectives (jax 0.10.2).
    if not several_on_cpu and "JAX_COMPILATION_CACHE_DIR" not in os.environ:
        jax.config.update("jax_compilation_cache_dir", str(programs))
        jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.5)
        set_here.append(f"compiled programs are kept in {programs} (off: JAX_ENABLE_COMPILATION_CACHE=0)")
    if options := compiler_options():
        shown = ", ".join(f"{name}={value}" for name, value in options.items())
        set_here.append(f"steps are compiled with {shown} (off: TXJAX_COMPILER_OPTIONS=0)")
    return set_here


@functools.cache
def compiler_options() -> dict[str, Any]:
    """XLA's options for this backend, those that this version of its compiler knows. Call it after `prepare`."""
    if os.environ.get("TXJAX_COMPILER_OPTIONS") == "0" or jax.default_backend() != "cpu":
        return {}
    return {name: value for name, value in _CPU_OPTIONS.items() if _known({name: value})}


def _known(options: dict[str, Any]) -> bool:
    try:
        jax.jit(lambda: 0, compiler_options=options).lower().compile()
    except jax.errors.JaxRuntimeError:
        return False
    return True


def jit(function: Any, **options: Any) -> Any:
    """`jax.jit` with the backend's compiler options."""
    return jax.jit(function, compiler_options=compiler_options(), **options)


def jit_once(function: Any, **options: Any) -> Any:
    """`jax.jit` for what runs once: a CPU takes longer to optimise it than to run it."""
    return jax.jit(function, compiler_options=_once(), **options)


@functools.cache
def _once() -> dict[str, Any]:
    return compiler_options() and {"xla_backend_optimization_level": 0}


def unroll(depth: int) -> int:
    """How many of `depth` layers one turn of a loop holds, where the config leaves it open.

    A CPU copies what the backward pass needs at every turn of a loop; other backends hardly mind.
    """
    return depth if jax.default_backend() == "cpu" and depth <= _UNROLLED else 1


def _keep_memory() -> bool:
    """Tells glibc to keep what a step frees. Giving it back means faulting it in at every step."""
    if not sys.platform.startswith("linux"):
        return False
    try:
        mallopt = ctypes.CDLL("libc.so.6").mallopt
    except (OSError, AttributeError):
        return False
    trim_threshold, top_pad, mmap_max, arena_max = -1, -2, -4, -8  # the names of malloc.h
    wanted = {mmap_max: 0, trim_threshold: 2**31 - 1, arena_max: 1, top_pad: 2**28}
    return all(mallopt(name, value) == 1 for name, value in wanted.items())
