"""Training under external faults: wrong clocks, failing trackers and data, memory, a changing number of devices."""

import subprocess
import sys
import time
from pathlib import Path

import jax
import numpy as np
import pytest

from txjax import config as configs
from txjax import sharding
from txjax.checkpoint import Store
from txjax.data.loading import batch_readers
from txjax.sharding import Mesh
from txjax.train.state.state import build_layout
from txjax.types import flat_paths

from helpers import runs

# Code of the config file: the wall clock is decades slow and jumps by minutes; trackers raise and hang. (Orbax counts
# its ten minutes by the wall clock: a longer jump in the middle of a save ends the run, as a disk that fails does.)
WRONG_CLOCK = """
import dataclasses, itertools, threading, time
from txjax.log import Sink, Tracker

jumps, real = itertools.cycle((0, -120, 120, 60)), time.time
time.time = lambda: real() - 1e9 + next(jumps)

@dataclasses.dataclass
class Raises(Tracker):
    def open(self, workdir, start_step):
        raise OSError("no network")

@dataclasses.dataclass
class Hangs(Tracker, Sink):
    def open(self, workdir, start_step):
        return self
    def write(self, row, files):
        threading.Event().wait()
"""


@pytest.mark.slow
def test_a_wrong_clock_and_failing_trackers(straight_run, tmp_path, monkeypatch):
    monkeypatch.setattr(time, "time", time.time)  # the config file sets it
    path = tmp_path / "wrong_clock.py"
    path.write_text(runs.CONFIG.replace("trackers=()", "trackers=(Raises(), Hangs())") + WRONG_CLOCK)
    code, _, err = runs.train_here(path, tmp_path / "run")
    assert code == 0, err
    assert "tracker Raises is switched off" in err and "tracker Hangs is switched off" in err
    assert runs.rows(tmp_path / "run") == runs.rows(straight_run)
    assert Store(tmp_path / "run").steps() == Store(straight_run).steps()


# Code of the config file: reading fails permanently after some examples.
BROKEN = """
import txjax.data.loading.batch_readers as readers
from txjax.data.tfds.records import CorruptData
example, calls = readers.example_at, []

def failing(*args):
    calls.append(1)
    if len(calls) > 150:
        raise ERROR
    return example(*args)

readers.example_at = failing
"""


WITHOUT_EVALS = ("--config.evals.valid.every_steps=10000", "--config.checkpoint.best=None")


@pytest.mark.slow
def test_data_that_fails_during_training(tmp_path):
    """The process ends within seconds with the cause in its last line, and the run has the steps before."""
    path, workdir = tmp_path / "failing_data.py", tmp_path / "run"
    path.write_text(runs.CONFIG + BROKEN.replace("ERROR", "ZeroDivisionError('in a transform')"))
    process = runs.start(path, workdir, *WITHOUT_EVALS)
    runs.wait_for_step(process, workdir, 10)
    _, err = process.communicate(timeout=60)
    assert process.returncode == 1 and "ZeroDivisionError: in a transform" in err, err
    assert Store(workdir).steps() == [10]


def test_a_corrupt_record_during_training_is_one_line(tmp_path, monkeypatch):
    monkeypatch.setattr(batch_readers, "example_at", batch_readers.example_at)  # the config file sets it
    path, workdir = tmp_path / "failing_data.py", tmp_path / "run"
    path.write_text(runs.CONFIG + BROKEN.replace("ERROR", "CorruptData('shard-3: record 17 cannot be read')"))
    code, _, err = runs.train_here(path, workdir, *WITHOUT_EVALS)
    assert code == 1 and err.endswith("\ntxjax: shard-3: record 17 cannot be read\n"), err
    assert Store(workdir).steps() == [10]


EARLIER = [Mesh(data=1, fsdp=8), Mesh(data=1, fsdp=2), Mesh(data=1)]


@pytest.mark.mesh
@pytest.mark.parametrize("mesh", EARLIER, ids=["8 devices", "2 devices", "1 device"])
def test_a_checkpoint_is_the_same_on_every_mesh(mesh, straight_run, config):
    experiment, store = configs.load(str(config), []), Store(straight_run)
    devices = jax.devices()[: mesh.fsdp]
    with sharding.use_mesh(Mesh(data=1), jax.devices()[:1]) as built:
        there = flat_paths(store.restore(build_layout(experiment, built).abstract)[0])
    experiment.mesh = mesh
    with sharding.use_mesh(mesh, devices) as built:
        here = flat_paths(store.restore(build_layout(experiment, built).abstract)[0])
    assert len(here["params/embed/embedding"].sharding.device_set) == mesh.fsdp
    for path, array in there.items():
        assert np.asarray(array).tobytes() == np.asarray(here[path]).tobytes(), path


@pytest.mark.slow
def test_a_run_moves_from_8_to_2_to_1_devices(config, straight_run, tmp_path):
    workdir = tmp_path / "run"
    for devices, until in ((8, 10), (2, 20), (1, 40)):
        mesh = [f"--config.mesh.fsdp={devices}", "--config.mesh.data=1"]
        flags = (*mesh, f"--until={until}")
        if devices > 1:
            code, _, err = runs.train(config, workdir, *flags, devices=devices)
        else:
            code, _, err = runs.train_here(config, workdir, *flags)
        assert code == 0, err
    for here, there in zip(runs.rows(workdir), runs.rows(straight_run), strict=True):
        assert here["train/batch_hash"] == there["train/batch_hash"]
        assert here["train/loss"] == pytest.approx(there["train/loss"], rel=1e-5)


SAVES = """
import resource, sys, tempfile
import jax.numpy as jnp
from pathlib import Path
from txjax.checkpoint import Checkpoints, Store
from txjax.types import TrainState

def resident():
    return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize() / 2**20

weights = {f"w{i}": jnp.full((256, 1024), i, jnp.float32) for i in range(8)}  # 8 MiB
state = TrainState(jnp.int32(0), weights, {}, {}, {}, jnp.zeros((2,), jnp.int32))
store, seen = Store(Path(sys.argv[1]), Checkpoints(keep=2)), []
for step in range(1, 51):
    store.save(step, state, {"data": {}, "metrics": {}})
    store.wait()
    seen.append(resident())
print(*seen)
"""


@pytest.mark.slow
def test_fifty_saves_do_not_grow(tmp_path):
    """Resident memory over saves of 8 MiB: the line fit to the last 30 rises by less than a tenth of a save each."""
    found = subprocess.run([sys.executable, "-c", SAVES, tmp_path], capture_output=True, text=True, check=True)
    seen = [float(word) for word in found.stdout.split()]
    assert len(seen) == 50
    slope = np.polyfit(range(30), seen[20:], 1)[0]
    assert slope < 0.8, seen


def test_durations_do_not_use_the_wall_clock():
    """`time.time` is only for the time of a row, to be read by people, for the trial of another process, and beside the
    times of files."""
    package = Path(configs.__file__).parent
    asked = {str(p.relative_to(package)) for p in package.rglob("*.py") if "time.time()" in p.read_text()}
    assert asked <= {"log/metrics.py", "cli/resume_trial.py", "io/block_cache.py"}
