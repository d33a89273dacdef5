"""Compiled programs that are kept between test runs: most of a run's time would go into compiling them again.

They are in the user's cache folder, for these versions and this processor. A damaged one is compiled again. JAX can
limit the size of a cache, but reads the whole folder for every program that it adds; so the oldest are removed here,
once a run.
"""

import hashlib
import os
import platform
from importlib.metadata import version
from pathlib import Path

import jax

LIMIT = 2**30  # bytes
DAMAGED = "Error reading persistent compilation cache entry"  # JAX's warning, before it compiles


def cache_root() -> Path:
    """Where programs of all versions are kept."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "txjax-tests"


def folder() -> Path:
    """The folder for these versions and this processor. JAX's own keys hold the flags of XLA."""
    cpu = Path("/proc/cpuinfo")
    lines = cpu.read_text().splitlines() if cpu.is_file() else []
    processor = sorted({line for line in lines if line.startswith(("model name", "flags", "Features"))})
    key = hashlib.sha256(repr((platform.machine(), processor)).encode()).hexdigest()[:8]
    return cache_root() / f"python{platform.python_version()}-jax{version('jax')}-jaxlib{version('jaxlib')}-{key}"


def keep() -> None:
    """From here on this process, and its children, take programs from the folder and add those that it lacks."""
    os.environ["JAX_COMPILATION_CACHE_DIR"] = str(folder())
    os.environ["JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS"] = "0"
    os.environ["JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES"] = "-1"
    os.environ["PYTHONWARNINGS"] = f"ignore:{DAMAGED}"
    jax.config.update("jax_compilation_cache_dir", str(folder()))
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 0)
    jax.config.update("jax_persistent_cache_min_entry_size_bytes", -1)


def prune(root: Path, limit: int = LIMIT) -> None:
    """Removes programs, least recently used first, until the rest has at most `limit` bytes."""
    found = [(max(s.st_atime, s.st_mtime), s.st_size, p) for p in root.rglob("*-cache") for s in [p.stat()]]
    size = sum(bytes_ for _, bytes_, _ in found)
    for _, bytes_, path in sorted(found):
        if size <= limit:
            break
        path.unlink(missing_ok=True)
        size -= bytes_
