"""What is set before JAX compiles anything; the one place for it."""

import os

import jax

from txjax.data.cache import cache_dir


def prepare() -> None:
    """Keeps compiled programs on disk, in txjax's cache. JAX_ENABLE_COMPILATION_CACHE=0 switches it off.

    Not where one CPU plays several devices: there, programs that come from the disk deadlock in their
    collectives (seen with jax 0.10.2).
    """
    several_on_cpu = jax.default_backend() == "cpu" and jax.local_device_count() > 1
    if "JAX_COMPILATION_CACHE_DIR" not in os.environ and not several_on_cpu:
        jax.config.update("jax_compilation_cache_dir", str(cache_dir() / "programs"))
        jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.5)
