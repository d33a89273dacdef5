"""A killed run with all trackers: each has one run with every step once, and what evaluations wrote."""

import contextlib
import importlib.util
import os
import signal
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from txjax.log import read_metrics

from helpers import runs, tracked_runs
from helpers.killed_evaluation import picture, table
from helpers.runs import free_address

pytestmark = [
    pytest.mark.slow,
    pytest.mark.claim(
        "Logs", "killed and resumed, every tracker shows one run, each step once, with the values of metrics.jsonl"
    ),
]

if not all(map(importlib.util.find_spec, ("wandb", "mlflow", "trackio"))):
    pytest.skip("it needs the extra trackers", allow_module_level=True)

MLFLOW = os.environ.get("TXJAX_MLFLOW")  # the program `mlflow` of the full package, which may be of another environment
CONFIG = (
    runs.CONFIG.replace("from txjax.eval import Evaluation", "from helpers.killed_evaluation import Killed")
    .replace("Evaluation(data=held_out, every_steps=10, max_batches=2)", "Killed(data=held_out, every_steps=53)")
    .replace('Checkpoints(every_steps=10, keep=3, best="eval/valid/loss")', "Checkpoints(every_steps=50)")
    .replace("num_steps=40", "num_steps=220")
    .replace(
        "trackers=()",
        'trackers=(TensorBoard(), WandB(mode="offline"), MLflow(), Trackio())'
        if MLFLOW
        else 'trackers=(TensorBoard(), WandB(mode="offline"), Trackio())',
    )
    + "\nfrom txjax.log import MLflow, TensorBoard, Tracker, Trackio, WandB\nTracker.patience = 200.0\n"
)


@contextlib.contextmanager
def mlflow_server(folder: Path) -> Iterator[str]:
    """The address of a server."""
    address = free_address()
    words = [MLFLOW, "server", "--host=127.0.0.1", f"--port={address.rpartition(':')[2]}", "--workers=1"]
    words += [f"--backend-store-uri=sqlite:///{folder}/mlflow.db", f"--artifacts-destination={folder}/artifacts"]
    server = subprocess.Popen(words, cwd=folder, start_new_session=True)
    try:
        for _ in range(600):
            with contextlib.suppress(urllib.error.URLError, ConnectionError):
                urllib.request.urlopen(f"http://{address}/health")
                break
            time.sleep(0.2)
        yield f"http://{address}"
    finally:
        os.killpg(server.pid, signal.SIGKILL)
        server.wait()


@pytest.fixture(scope="module")
def killed(tmp_path_factory):
    """A workdir whose run was killed at step 212, with a checkpoint at step 200, and resumed; and MLflow's address."""
    folder = tmp_path_factory.mktemp("tracked")
    (folder / "config.py").write_text(CONFIG)
    with (
        pytest.MonkeyPatch.context() as patch,
        mlflow_server(folder) if MLFLOW else contextlib.nullcontext("") as server,
    ):
        patch.setenv("TRACKIO_DIR", str(folder / "trackio"))
        patch.setenv("MLFLOW_TRACKING_URI", server)
        for code in (-signal.SIGKILL, 0):
            ((ended, _, err),) = runs.ended([runs.start(folder / "config.py", folder / "run")])
            assert ended == code and "switched off" not in err, err
        yield folder / "run", server


@pytest.mark.parametrize("name", ["tensorboard", "wandb", "mlflow", "trackio"])
def test_after_a_kill_each_tracker_has_every_step_once(killed, name):
    """The times of steps that were computed twice are of the first start, where a service takes no row back."""
    workdir, server = killed
    if name == "mlflow" and not MLFLOW:
        pytest.skip("no server: pip install mlflow, in any environment, and set TXJAX_MLFLOW to its program mlflow")
    read = getattr(tracked_runs, name)
    tracked = read(workdir, server) if name == "mlflow" else read(workdir)
    wanted = [
        (row["step"], {k: np.float32(v) for k, v in row.items() if k.startswith(("train/", "eval/"))})
        for row in read_metrics(workdir)
    ]
    assert [step for step, _ in wanted] == list(range(1, 221))
    steps = [step for step, _ in tracked.rows]
    assert sorted(steps) == list(range(1, 221))
    for step, row in wanted:
        values = dict(tracked.rows)[step].items()
        assert {k: np.float32(v) for k, v in values if k.startswith(("train/", "eval/"))} == row, step
    assert {step for _, step in tracked.files} == {53, 106, 159, 212, 220}
    assert tracked.files["pictures/valid", 220] == picture(220)
    lines = [line.removeprefix("    ") for line in tracked.files["tables/valid", 220].splitlines()]
    assert lines == table(220).splitlines()
