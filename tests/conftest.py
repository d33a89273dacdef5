"""Strict JAX, in a session of one device or, for tests marked `mesh`, of eight that the CPU plays.

    python -m pytest -n 2            one device: compiled programs are kept for the next run
    python -m pytest -n 2 -m mesh    eight devices: none are kept, since programs that come from the disk deadlock in
                                     the collectives of a CPU that plays several devices (jax 0.10.2)

Tests marked `slow` or `score` run only where `-m` names them, too: `-m slow`, `-m "slow and mesh"`, `-m score`. Tests
that are repeated for every family run for a selection of them, which is printed (selection.py); `--full` runs all.
"""

import gc
import os
import shutil
import tempfile
from pathlib import Path
from typing import Any

import jax
import pytest
from filelock import FileLock

from txjax import plugins

import selection
from helpers import device_copies, program_cache, runs, shape_checks, tiers

# Workers of one test run share the cache: data sets are prepared once.
os.environ.setdefault("TXJAX_CACHE_DIR", str(Path(tempfile.gettempdir()) / f"txjax-tests-{os.getuid()}"))
os.environ["JAX_PLATFORMS"] = "cpu"
os.environ.pop("COLUMNS", None)  # which xdist sets for its workers: tables are those of a pipe
jax.config.update("jax_numpy_rank_promotion", "raise")
plugins.leave_out()
device_copies.install()
# Traces are many objects that live long: by default a fifth of the time went into looking for garbage among them.
gc.set_threshold(50_000, 20, 50)

ROOT = Path(__file__).parents[1]
TFDS = ROOT.parent / "shared" / "tfds"


SELECTION = pytest.StashKey[list[str]]()


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--full", action="store_true", help="every family and config, not a selection (or TXJAX_FULL=1)")
    parser.addoption("--kills", type=int, default=3, help="of trials in buckets (tests/train/test_bucket_commands.py)")
    parser.addoption("--part", metavar="I/N", help="the I-th of N parts of the tests (tests/run_full.sh)")


def pytest_configure(config: pytest.Config) -> None:
    """Sets the number of devices, before JAX counts them."""
    if "slow" not in tiers.named(config.option.markexpr):
        shape_checks.install()
    several = "mesh" in tiers.named(config.option.markexpr)
    os.environ["XLA_FLAGS"] = runs.xla_flags(8 if several else 1)
    if not several:
        program_cache.keep()
        if not hasattr(config, "workerinput"):  # once, whatever the number of workers
            program_cache.prune(program_cache.cache_root())


@pytest.hookimpl(trylast=True)  # after what -m and -k leave
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Deselects the tests of tiers that were not chosen, and families that wait for their turn."""
    others = tiers.TIERS - tiers.named(config.option.markexpr)
    chosen = [item for item in items if not any(item.get_closest_marker(tier) for tier in others)]
    named = "TXJAX_COMMIT" not in os.environ and (config.option.keyword or any("::" in word for word in config.args))
    if not (config.option.full or named or os.environ.get("TXJAX_FULL")):
        chosen, lines = selection.choose(chosen)
        getattr(config, "workeroutput", {})["selection"] = lines
        config.stash[SELECTION] = lines
    if config.option.part:
        chosen = selection.part_of(chosen, *map(int, config.option.part.split("/")))
    kept = set(chosen)
    config.hook.pytest_deselected(items=[item for item in items if item not in kept])
    items[:] = chosen


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:
    """Takes over from a worker what it selected, which is the same in all."""
    if lines := getattr(node, "workeroutput", {}).get("selection"):
        node.config.stash[SELECTION] = lines


def pytest_sessionfinish() -> None:
    """One search for garbage, whose finalisers may warn, and not the five that pytest makes at its end."""
    gc.collect()
    gc.freeze()


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, exitstatus: int) -> None:
    if exitstatus == pytest.ExitCode.NO_TESTS_COLLECTED:
        terminalreporter.write_line(tiers.HINT)
    for line in terminalreporter.config.stash.get(SELECTION, []):
        terminalreporter.write_line(line)


@pytest.fixture(scope="session")
def root() -> Path:
    """The repository."""
    return ROOT


@pytest.fixture(scope="session")
def tfds() -> Path | None:
    """Prepared TFDS data sets beside the checkout. None where there are none."""
    return TFDS if TFDS.is_dir() else None


@pytest.fixture(scope="session")
def tfds_dir(tfds) -> Path:
    """The same for a test that is nothing without them."""
    if tfds is None:
        pytest.skip(f"no prepared data sets in {TFDS}")
    return tfds


@pytest.fixture(scope="session")
def config(tmp_path_factory) -> Path:
    """A config file that trains in seconds."""
    path = tmp_path_factory.mktemp("configs") / "small.py"
    path.write_text(runs.CONFIG)
    return path


@pytest.fixture(scope="session")
def straight_run(config, tmp_path_factory, worker_id) -> Path:
    """The workdir of that config, trained to its end without a disturbance. Leave it as it is."""
    alone = worker_id == "master"
    shared = tmp_path_factory.mktemp("straight") if alone else tmp_path_factory.getbasetemp().parent / "straight"
    with FileLock(f"{shared}.lock"):  # the first worker trains it for all
        if not (shared / "trained").exists():
            shutil.rmtree(shared / "run", ignore_errors=True)
            train = runs.train_here if jax.device_count() == 1 else runs.train
            code, _, err = train(config, shared / "run")
            assert code == 0, err
            (shared / "trained").touch()
    if alone:
        return shared / "run"
    return shutil.copytree(shared / "run", tmp_path_factory.mktemp("own") / "run")
