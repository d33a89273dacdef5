"""Everything that depends on the backend: process setup, compiler options, loops over layers, host memory.

`docs/performance.md` gives the measurements behind each choice.
"""

import contextlib
import math
import os
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
from jax.sharding import NamedSharding

from txjax import cpu
from txjax.errors import UserError
from txjax.io.cache_dir import cache_dir, can_write
from txjax.scoped import Scoped
from txjax.types import PyTree

_OPTIONS = "TXJAX_COMPILER_OPTIONS"
_HOST = "pinned_host"  # JAX's name for host memory that devices read
# By platform, up to so many layers are one turn of a loop, since each turn copies what the backward pass needs.
_UNROLLED = {"cpu": cpu.UNROLLED, "gpu": 24}


# The platform that programs are compiled for, if it isn't this machine's.
_target = Scoped[str | None]("target", None)


def platform() -> str:
    """The platform that programs are compiled for: "cpu", "gpu" or "tpu"."""
    return _target.get() or jax.default_backend()


def target_platform(platform: str) -> contextlib.AbstractContextManager[str | None]:
    """Traces and compiles everything inside for this platform, whether or not this machine has it."""
    return _target.within(platform)


def prepare(programs: Path | None = None) -> list[str]:
    """Sets this process up for training on its backend. Returns what was set, and how to disable it.

    Args:
      programs: the folder of the compilation cache. If None, `programs` in the cache folder.
    """
    programs = cache_dir() / "programs" if programs is None else programs
    set_here = [note] if (note := cpu.keep_freed_memory()) else []
    several_on_cpu = jax.default_backend() == "cpu" and jax.device_count() > 1
    # With several devices on a CPU, programs from the compilation cache deadlock in collectives (jax 0.10.2).
    writes = can_write(programs.absolute())
    if not several_on_cpu and "JAX_COMPILATION_CACHE_DIR" not in os.environ and (writes or programs.is_dir()):
        jax.config.update("jax_compilation_cache_dir", str(programs))
        jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.5 if writes else math.inf)
        action = "kept in" if writes else "read from"
        set_here.append(f"compiled programs are {action} {programs} (off: JAX_ENABLE_COMPILATION_CACHE=0)")
    if options := compiler_options():
        _check_options(options)
        set_here.append(f"steps are compiled with {options} ({_OPTIONS})")
    return set_here


def compiler_options() -> dict[str, Any]:
    """XLA's options for steps and evaluations on this machine, from TXJAX_COMPILER_OPTIONS="name=value,name=value".

    txjax sets none by default: which ones help depends on the processor and on the program (docs/performance.md).

    Raises:
      UserError: the variable is not of this form.
    """
    text = os.environ.get(_OPTIONS, "")
    if not text or _target.get() is not None:
        return {}
    options = {}
    for part in text.split(","):
        name, equals, value = part.strip().partition("=")
        if not (name and equals and value):
            raise UserError(_OPTIONS, "name=value,name=value", text)
        options[name] = {"true": True, "false": False}.get(value.lower(), value)
    return options


def _check_options(options: dict[str, Any]) -> None:
    """Raises UserError, before anything else compiles, if this version of XLA doesn't have an option."""
    for name, value in options.items():
        try:
            jax.jit(lambda x: x, compiler_options={name: value}).lower(jax.ShapeDtypeStruct((), jnp.float32)).compile()
        except (jax.errors.JaxRuntimeError, ValueError) as error:
            hint = str(error).splitlines()[0][:200]
            raise UserError(_OPTIONS, "options of this version of XLA", f"{name}={value}", hint=hint) from None


def jit(function: Any, **options: Any) -> Any:
    """`jax.jit` with the `compiler_options`."""
    return jax.jit(function, compiler_options=compiler_options(), **options)


def jit_once(function: Any, numbers: int, **options: Any) -> Any:
    """`jax.jit` for a program that runs once and draws `numbers` random numbers: see `cpu.options_once`."""
    once = cpu.options_once(numbers) if platform() == "cpu" else {}
    return jax.jit(function, compiler_options=once, **options)


def unroll(depth: int, rematerialised: bool) -> int:
    """The default number of layers, of `depth`, in one turn of the loop: all of up to `_UNROLLED`.

    On a CPU 1 if they are rematerialised: XLA removes there the barriers between layers that are no loop.
    """
    if rematerialised and platform() == "cpu":
        return 1
    return depth if depth <= _UNROLLED.get(platform(), 0) else 1


def unstacks(depth: int) -> bool:
    """Whether decoding with `depth` layers takes their parameters apart first: on a CPU, up to `cpu.UNSTACKED`."""
    return platform() == "cpu" and depth <= cpu.UNSTACKED


def need_host_memory(field: str) -> None:
    """Raises UserError, for the field that needs it, if devices can't access host memory."""
    if _target.get() is not None:
        return  # the devices of a plan can
    kinds = sorted(memory.kind for memory in jax.devices()[0].addressable_memories())
    if _HOST not in kinds:
        raise UserError(field, f"devices that reach memory of the kind {_HOST}", ", ".join(kinds))


def to_host(sharding: NamedSharding) -> NamedSharding:
    """The same sharding in host memory."""
    return sharding.with_memory_kind(_HOST)


def on_host(sharding: NamedSharding) -> bool:
    """Whether this sharding is in host memory."""
    return sharding.memory_kind == _HOST


def fetch(tree: PyTree, shardings: PyTree) -> PyTree:
    """Copies the arrays that `shardings` has in host memory to their devices; others are unchanged."""

    def move(x: jax.Array, sharding: NamedSharding) -> jax.Array:
        return jax.device_put(x, sharding.with_memory_kind("device")) if on_host(sharding) else x

    return jax.tree.map(move, tree, shardings)


def offload(tree: PyTree, shardings: PyTree) -> PyTree:
    """The inverse of `fetch`."""
    return jax.tree.map(lambda x, s: jax.device_put(x, s) if on_host(s) else x, tree, shardings)
