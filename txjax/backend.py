"""What is set before JAX compiles anything; the one place for it."""

import os

from txjax.data.cache import cache_dir


def prepare() -> None:
    """Keeps compiled programs on disk, in txjax's cache. JAX_ENABLE_COMPILATION_CACHE=0 switches it off."""
    import jax

    if "JAX_COMPILATION_CACHE_DIR" not in os.environ:
        jax.config.update("jax_compilation_cache_dir", str(cache_dir() / "programs"))
        jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.5)
