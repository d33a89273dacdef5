"""What is set before JAX compiles anything; the one place for it."""

import ctypes
import os
import sys

import jax

from txjax.data.cache import cache_dir


def prepare() -> list[str]:
    """Sets this process up for training on its backend. Returns what was set, and what switches it off."""
    set_here = []
    if os.environ.get("TXJAX_KEEP_MEMORY") != "0" and _keep_memory():  # before JAX starts its threads
        set_here.append("freed memory is kept for the next step (off: TXJAX_KEEP_MEMORY=0)")
    several_on_cpu = jax.default_backend() == "cpu" and jax.local_device_count() > 1
    # Where one CPU plays several devices, programs that come from the disk deadlock in their collectives (jax 0.10.2).
    if not several_on_cpu and "JAX_COMPILATION_CACHE_DIR" not in os.environ:
        folder = str(cache_dir() / "programs")
        jax.config.update("jax_compilation_cache_dir", folder)
        jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.5)
        set_here.append(f"compiled programs are kept in {folder} (off: JAX_ENABLE_COMPILATION_CACHE=0)")
    return set_here


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
