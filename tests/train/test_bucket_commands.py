"""Commands in a bucket: `txjax chaos` by one process and by two, a process that dies in its start, mistakes."""

import json
import signal

import pytest

from helpers import object_stores, runs

pytestmark = pytest.mark.claim("Object stores", "a run in a bucket: killed at any moment, resumed on any machine")

# A config file whose process 1 is killed when it waits for process 0, which fetches the newest step.
KILLED = (
    runs.CONFIG
    + """
import os, signal, sys
from txjax.train.bucket import remote_workdir
if "--process_index=1" in sys.argv:
    remote_workdir.on_primary = lambda *_: os.kill(os.getpid(), signal.SIGKILL)
"""
)


@pytest.fixture
def url(monkeypatch):
    """A folder of a bucket."""
    with object_stores.moto() as server:
        for name, value in server.variables.items():
            monkeypatch.setenv(name, value)
        yield f"{server.url}/trial"


@pytest.mark.slow
def test_a_process_that_is_killed_while_the_folder_is_fetched_ends_the_other(url, straight_run, tmp_path):
    config = tmp_path / "killed.py"
    config.write_text(KILLED)
    first, second = runs.ended(runs.start_several(2, config, url, "--config.heartbeat_timeout_seconds=10"), 60)
    assert second[0] == -signal.SIGKILL and first[0] not in (0, 75, -signal.SIGKILL), first


@pytest.mark.slow
@pytest.mark.parametrize("processes", [1, 2])
def test_random_kills_change_nothing(url, config, processes):
    words = ["chaos", f"--config={config}", "--kills=3", "--steps=30", "--seed=1", f"--processes={processes}"]
    words += [f"--workdir={url}", "--config.heartbeat_timeout_seconds=10", "--json"]
    code, out, err = runs.command(*words)
    assert code == 0, err
    result = json.loads(out.splitlines()[-1])
    assert result["exact"] and len(result["interruptions"]) == 3
    code, _, err = runs.command(*words)
    assert code == 2 and "expected a folder without earlier runs, got" in err and len(err.splitlines()) == 1, err


def test_mistakes_are_one_line(url, config, tmp_path):
    for words, message in (
        (["train", f"--config={config}", "--workdir=s3://nowhere/a"], "its answer is 404, NoSuchBucket"),
        (["train", f"--config={config}", "--workdir=s3://runs"], "expected s3://BUCKET/FOLDER"),
        (["train", f"--config={config}", "--workdir=s3://runs/a", "--dry_run"], "only a run by itself"),
        (["report", "s3://runs/a"], "`txjax fetch --workdir=s3://runs/a --to=FOLDER` copies a run"),
        (["evaluate", "--workdir=s3://runs/a"], "`txjax fetch --workdir=s3://runs/a --to=FOLDER` copies a run"),
        (["generate", "--workdir", "s3://runs/a"], "`txjax fetch --workdir=s3://runs/a --to=FOLDER` copies a run"),
        (["fetch", "--workdir=s3://runs/none", f"--to={tmp_path / 'copy'}"], "there is none, or it has not saved yet"),
    ):
        code, _, err = runs.command(*words)
        assert code == 2 and message in err and len(err.splitlines()) == 1, err
    assert not (tmp_path / "copy").exists()
