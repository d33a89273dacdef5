"""Strict JAX on eight fake devices, and one cache folder for the whole session."""

import os
import tempfile
from pathlib import Path

# Eight devices; and less optimisation, since tests compile far longer than they run.
os.environ["XLA_FLAGS"] = "--xla_force_host_platform_device_count=8 --xla_backend_optimization_level=0"
# Eight devices on two busy cores may keep each other waiting for long.
os.environ["XLA_FLAGS"] += " --xla_cpu_collective_call_terminate_timeout_seconds=300"
os.environ["JAX_PLATFORMS"] = "cpu"
# Workers of one test run share the cache: data sets are prepared and programs compiled once.
os.environ.setdefault("TXJAX_CACHE_DIR", str(Path(tempfile.gettempdir()) / f"txjax-tests-{os.getuid()}"))

import jax
import pytest

import runs

jax.config.update("jax_numpy_rank_promotion", "raise")

ROOT = Path(__file__).parents[1]
TFDS = ROOT.parent / "shared" / "tfds"


@pytest.fixture(scope="session")
def root() -> Path:
    """The repository."""
    return ROOT


@pytest.fixture(scope="session")
def tfds_dir() -> Path:
    """Prepared TFDS data sets beside the checkout."""
    if not TFDS.is_dir():
        pytest.skip(f"no prepared data sets in {TFDS}")
    return TFDS


@pytest.fixture(scope="session")
def config(tmp_path_factory) -> Path:
    """A config file that trains in seconds."""
    path = tmp_path_factory.mktemp("configs") / "small.py"
    path.write_text(runs.CONFIG)
    return path


@pytest.fixture(scope="session")
def straight_run(config, tmp_path_factory) -> Path:
    """The workdir of that config, trained to its end without a disturbance. Leave it as it is."""
    workdir = tmp_path_factory.mktemp("straight") / "run"
    code, _, err = runs.train(config, workdir)
    assert code == 0, err
    return workdir
