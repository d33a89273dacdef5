"""Commands in a bucket: `txjax chaos` by one process and by two, a process that dies in its start, Python, mistakes."""

import dataclasses
import json
import os
import signal

import pytest

import txjax
from txjax.cli.resume_trial import equal_arrays
from txjax.errors import RunError
from txjax.train.bucket import commits, lease

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


@pytest.fixture(params=["moto", "radosgw"])
def server(request, monkeypatch, tmp_path):
    """A server; Ceph's only where everything is tested."""
    if request.param == "radosgw" and not (request.config.option.full or os.environ.get("TXJAX_FULL")):
        pytest.skip("radosgw takes half a minute to start: --full")
    with object_stores.moto() if request.param == "moto" else object_stores.radosgw(tmp_path) as running:
        for name, value in running.variables.items():
            monkeypatch.setenv(name, value)
        yield running


@pytest.mark.slow
@pytest.mark.parametrize("processes", [1, 2])
def test_random_kills_change_nothing(server, config, processes, request):
    """`--kills=100` for a release: on radosgw some ten minutes of one process, and twenty of two."""
    kills = request.config.option.kills
    for seed, begin in enumerate(range(0, kills, 20), 1):  # a store in memory has room for so many saves
        url, part = f"{server.url}/trial{seed}", min(20, kills - begin)
        words = ["chaos", f"--config={config}", f"--kills={part}", "--steps=30", f"--seed={seed}", f"--workdir={url}"]
        words += [f"--processes={processes}", "--config.heartbeat_timeout_seconds=10", "--json"]
        code, out, err = runs.command(*words)
        assert code == 0, err
        result = json.loads(out.splitlines()[-1])
        assert result["exact"] and len(result["interruptions"]) == part
    code, _, err = runs.command(*words)
    assert code == 2 and "expected a folder without earlier runs, got" in err and len(err.splitlines()) == 1, err


def test_a_run_from_python(url, config, straight_run):
    """It is in the bucket when a call returns, resumes there, and is opened as a copy."""
    half = txjax.fit(str(config), url, until=15)
    assert half.metrics[-1]["step"] == 15 and not half.finished
    run = half.resume()
    assert run.finished and runs.rows(run.workdir) == runs.rows(straight_run)
    opened = txjax.open(url)
    assert opened.workdir != run.workdir and runs.rows(opened.workdir) == runs.rows(straight_run)
    assert equal_arrays(opened.workdir, straight_run, 40)[0] > 0
    assert txjax.open(url).workdir == opened.workdir  # nothing is copied twice
    assert opened.resume().metrics == run.metrics


def test_the_last_line_of_a_run_names_its_curves_in_the_bucket(url, tmp_path):
    config = tmp_path / "drawn.py"
    config.write_text(f"from txjax.log import Curves\n{runs.CONFIG}".replace("trackers=()", "trackers=(Curves(),)"))
    code, out, err = runs.command("train", f"--config={config}", f"--workdir={url}", "--until=2")
    assert code == 0 and out.endswith(f"stopped at step 2 of 40; curves in {url}/curves.png\n"), err
    code, _, err = runs.command("fetch", f"--workdir={url}", f"--to={tmp_path / 'copy'}")
    assert code == 0 and (tmp_path / "copy" / "curves.png").exists(), err


def test_a_workdir_that_was_taken_ends_the_call_in_python(url, config, monkeypatch):
    monkeypatch.setattr(lease, "BEAT_SECONDS", 0.1)
    append_entry, appended = commits.append, []

    def append(bucket, entry):
        appended.append(entry)
        if len(appended) == 2:  # the first step: another run is faster
            other = dataclasses.replace(entry, owner=entry.number)
            assert append_entry(bucket, other)
        return append_entry(bucket, entry)

    monkeypatch.setattr(commits, "append", append)
    with pytest.raises(RunError, match="has taken the workdir: this run leaves it"):
        txjax.fit(str(config), url)


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
