"""Runs whose workdir is in a bucket: real processes, real kills, on moto's, Ceph's and an emulated Google server."""

import os
import random
import signal
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from txjax.cli.resume_trial import equal_arrays
from txjax.train.bucket import commits, fetch_workdir, lease
from txjax.train.bucket.client import Bucket
from txjax.train.bucket.lease import Lease
from txjax.types import UserError

from helpers import gcs_server, object_stores, runs
from helpers.faulty_proxy import FAULTS, faulty_proxy

pytestmark = pytest.mark.claim("Object stores", "a run in a bucket: killed at any moment, resumed on any machine")

# A config file whose process gets a signal before the n-th request of a kind that the environment names, and whose runs
# count as dead after two seconds.
HIT = (
    runs.CONFIG
    + """
import os, signal
from txjax.io import store_client
from txjax.train.bucket import lease, mirror
from txjax.train.bucket.client import Bucket

lease.BEAT_SECONDS, lease.DEAD_SECONDS, lease.LOOK_SECONDS, mirror.POLL_SECONDS = 0.5, 2.0, 0.2, 0.05
store_client.REQUEST_SECONDS, store_client.LIMIT_SECONDS = 2.0, float(os.environ.get("LIMIT", "5"))
kind, prefix, after, number = f"{os.environ.get('HIT', 'nothing::0')}:{int(signal.SIGKILL)}".split(":")[:4]
if kind != "nothing":
    request, calls = getattr(Bucket, kind), []
    def wrapped(self, key, *content):
        if str(key).startswith(prefix):
            calls.append(key)
        if len(calls) == int(after):
            os.kill(os.getpid(), int(number))
        return request(self, key, *content)
    setattr(Bucket, kind, wrapped)
"""
)
MOMENTS = (
    "names:log:1",  # nothing yet
    "create:log:1",
    "write:files:1",  # of the first step
    "write:files:9",
    "create:log:2",
    "names:files:1",
    "write:files:30",
    "remove:[:2",  # with the pieces that the step before needed
    "create:log:3",
)


@pytest.fixture(
    scope="module",
    params=["moto", pytest.param("radosgw", marks=pytest.mark.slow), pytest.param("gcs", marks=pytest.mark.slow)],
)
def server(request, tmp_path_factory):
    """A server; Ceph's only where everything is tested."""
    if request.param == "radosgw" and not (request.config.option.full or os.environ.get("TXJAX_FULL")):
        pytest.skip("radosgw takes half a minute to start: --full")
    folder = tmp_path_factory.mktemp("server")
    servers = {"moto": object_stores.moto, "radosgw": lambda: object_stores.radosgw(folder), "gcs": gcs_server.gcs}
    with servers[request.param]() as running:
        yield running


@pytest.fixture
def in_bucket(server, monkeypatch):
    """The URL of a bucket."""
    for name, value in server.variables.items():
        monkeypatch.setenv(name, value)
    return server.url


@pytest.fixture(scope="module")
def hit_config(tmp_path_factory):
    path = tmp_path_factory.mktemp("bucket") / "small.py"
    path.write_text(HIT)
    return path


@pytest.fixture
def machine(tmp_path):
    """Makes the environment of another machine, whose cache has the prepared data, and no run."""

    def variables(name):
        cache = tmp_path / name
        cache.mkdir()
        for folder in ("tfds", "tokens", "programs"):
            source = os.path.join(os.environ["TXJAX_CACHE_DIR"], folder)
            if os.path.isdir(source):
                (cache / folder).symlink_to(source)
        return {"TXJAX_CACHE_DIR": str(cache)}

    return variables


def train(config, url, *flags, **variables):
    process = runs.start(config, url, *flags, variables=variables)
    out, err = process.communicate(timeout=300)
    return process.returncode, out, err


def fetched(url, to):
    fetch_workdir("--workdir", url, to)
    return to


def assert_equal_runs(run, straight, step=40):
    assert runs.rows(run) == runs.rows(straight)
    same, count = equal_arrays(straight, run, step)
    assert same == count > 0


def test_a_run_in_a_bucket_is_that_of_a_folder(in_bucket, hit_config, straight_run, tmp_path):
    url = f"{in_bucket}/straight"
    code, out, err = runs.train_here(hit_config, url, "--until=20")
    assert code == 0 and "stopped at step 20 of 40" in out, err
    code, out, err = runs.train_here(hit_config, url)
    assert code == 0 and "done: step 40" in out, err
    code, out, err = runs.command("fetch", f"--workdir={url}", f"--to={tmp_path / 'copy'}")
    assert code == 0 and f"files of {url} are in {tmp_path / 'copy'}" in out, err
    assert_equal_runs(tmp_path / "copy", straight_run)
    assert {path.name for path in (tmp_path / "copy" / "checkpoints").iterdir()} == {"20", "30", "40"}


@pytest.mark.slow
def test_sigkill_at_every_kind_of_request(in_bucket, hit_config, straight_run, tmp_path):
    url = f"{in_bucket}/kills"
    for moment in MOMENTS:
        code, _, err = train(hit_config, url, HIT=moment)
        assert code == -signal.SIGKILL, (moment, err)
    code, _, err = train(hit_config, url)
    assert code == 0, err
    assert_equal_runs(fetched(url, tmp_path / "copy"), straight_run)


@pytest.mark.slow
def test_a_run_moves_to_another_machine(in_bucket, hit_config, straight_run, machine, tmp_path):
    """After a clean end at once, after a kill when its heartbeats have stopped."""
    url = f"{in_bucket}/moving"
    code, _, err = train(hit_config, url, "--until=10")
    assert code == 0, err
    code, _, err = train(hit_config, url, **machine("second") | {"HIT": "create:log:2"})
    assert code == -signal.SIGKILL and "silent" not in err, err
    code, _, err = train(hit_config, url, **machine("third"))
    assert code == 0 and "which is silent: waiting 2 s" in err and "resuming at step 10" in err, err
    copy = fetched(url, tmp_path / "copy")
    assert_equal_runs(copy, straight_run)
    log = (copy / "logs" / "process_0.log").read_text()
    assert log.count("freed memory is kept") == 2, log  # each time before the store's client starts its threads


@pytest.mark.slow
def test_a_damaged_step_costs_one_interval(in_bucket, hit_config, straight_run, machine, tmp_path):
    url = f"{in_bucket}/damaged"
    code, _, err = train(hit_config, url, "--until=20")
    assert code == 0, err
    bucket = Bucket("--workdir", url)
    files = commits.newest(bucket)[1].files
    pieces = [piece for name in files if "/20/arrays/" in name for piece in files[name]]
    largest = max(pieces, key=lambda piece: piece.size).key
    content = bucket.read(largest)
    bucket.write(largest, content[:-1] + bytes([content[-1] ^ 1]))
    code, _, err = train(hit_config, url, **machine("second"))
    assert code == 0 and "checkpoint 20 is damaged" in err and "resuming at step 10" in err, err
    assert_equal_runs(fetched(url, tmp_path / "copy"), straight_run)


@pytest.mark.slow
def test_a_second_run_is_refused(in_bucket, hit_config, machine, tmp_path):
    """On the same machine by the lock of its folder, on another by the heartbeats."""
    url = f"{in_bucket}/two"
    first = runs.start(hit_config, url, "--config.num_steps=1000000", variables=machine("first"))
    runs.wait_for_step(first, _folder_of(tmp_path / "first"), 1)
    for variables in ({"TXJAX_CACHE_DIR": str(tmp_path / "first")}, machine("second")):
        code, _, err = train(hit_config, url, **variables)
        assert code == 2 and len(err.splitlines()) == 1, err
        assert f"expected a folder that no other run is using, got '{url}'; process {first.pid} on" in err, err
    first.terminate()
    first.communicate(timeout=60)
    assert first.returncode == 75
    code, _, err = train(hit_config, url, "--config.num_steps=1000000", "--until=1", **machine("third"))
    assert code == 0 and "silent" not in err, err


@pytest.mark.slow
def test_a_frozen_run_is_succeeded_and_ends_when_it_wakes(in_bucket, hit_config, straight_run, machine, tmp_path):
    url = f"{in_bucket}/frozen"
    first = runs.start(hit_config, url, variables=machine("first") | {"HIT": f"create:log:3:{int(signal.SIGSTOP)}"})
    os.waitid(os.P_PID, first.pid, os.WSTOPPED | os.WNOWAIT)  # about to commit
    code, _, err = train(hit_config, url, **machine("second"))
    assert code == 0, err
    first.send_signal(signal.SIGCONT)
    _, err = first.communicate(timeout=60)
    assert first.returncode == 1 and "has taken the workdir: this run leaves it" in err, err
    assert_equal_runs(fetched(url, tmp_path / "copy"), straight_run)


def _folder_of(cache):
    """The folder in which the only run of a cache works."""
    deadline = time.monotonic() + 120
    while not (folders := list(cache.glob("workdirs/*/*/config.json"))):
        assert time.monotonic() < deadline
        time.sleep(0.05)
    return folders[0].parent


@pytest.mark.slow
def test_an_outage_ends_the_run_in_one_line(hit_config, straight_run, machine, tmp_path):
    """The server dies while the run trains, and stays away longer than the limit."""
    url = "s3://runs/outage"
    with object_stores.moto() as server:
        variables = machine("first") | server.variables
        run = runs.start(hit_config, url, "--config.num_steps=1000000", variables=variables)
        runs.wait_for_step(run, _folder_of(tmp_path / "first"), 11)
    _, err = run.communicate(timeout=120)
    lines = [line for line in err.splitlines() if "cannot be reached" in line and "no heartbeat" not in line]
    assert run.returncode == 1 and len(lines) == 1, err
    assert "is safe there" in lines[0] or "no step is there yet" in lines[0], err


@pytest.mark.slow
def test_a_server_that_is_killed_and_restarted(server, in_bucket, hit_config, straight_run, tmp_path):
    """While steps are saved, and while they are restored; for less than the limit the run only waits."""
    if server.restart is None:
        pytest.skip("moto keeps nothing when it dies")
    url = f"{in_bucket}/restarts"
    for until in (10, 20, 30, 40):
        run = runs.start(hit_config, url, f"--until={until}", variables={"LIMIT": "60"})
        while run.poll() is None:
            server.restart(after=random.uniform(0.2, 3))
        _, err = run.communicate()
        assert run.returncode == 0, err
    assert_equal_runs(fetched(url, tmp_path / "copy"), straight_run)


@pytest.mark.slow
def test_wrong_answers_change_nothing(server, in_bucket, hit_config, straight_run, machine, tmp_path, monkeypatch):
    """A fifth of the requests fails, is cut, stalls or returns another bit, while the run is killed and moves."""
    if "AWS_ENDPOINT_URL" not in server.variables:
        pytest.skip("the proxy is for S3")
    url = "s3://runs/proxy"
    with faulty_proxy(server.variables["AWS_ENDPOINT_URL"], share=0.2) as (address, counts):
        faulty = {"AWS_ENDPOINT_URL": address, "LIMIT": "60"}
        for until, moment in ((10, "nothing::0"), (20, "write:files:9"), (40, "create:log:2"), (40, "nothing::0")):
            variables = machine(f"{until} {moment}") | faulty | {"HIT": moment}
            code, _, err = train(hit_config, url, f"--until={until}", **variables)
            assert code == (0 if moment == "nothing::0" else -signal.SIGKILL), err
    assert all(counts[fault] for fault in FAULTS), counts
    assert_equal_runs(fetched(url, tmp_path / "copy"), straight_run)


@pytest.mark.slow
def test_races_have_one_winner_each(server, in_bucket, monkeypatch):
    """A thousand on radosgw."""
    if not server.has_one_winner:
        pytest.skip("two creations at once may both succeed on moto")
    monkeypatch.setattr(lease, "BEAT_SECONDS", 0.05)
    monkeypatch.setattr(lease, "LOOK_SECONDS", 0.02)
    for number in range(1000 if server.restart else 100):
        winners, losers = race(f"{in_bucket}/races/{number}", runners=2)
        assert len(winners) == len(losers) == 1, number


def race(url, runners):
    """The leases of those that take a workdir of several that try at once, and the errors of the others."""
    start = threading.Barrier(runners)

    def take(_):
        bucket = Bucket("--workdir", url)
        start.wait()
        try:
            taken = Lease(bucket, None)
        except UserError as error:
            return None, str(error)
        return taken, None

    with ThreadPoolExecutor(runners) as pool:
        outcomes = list(pool.map(take, range(runners)))
    winners = [taken for taken, _ in outcomes if taken]
    for winner in winners:
        winner.stop()
    return winners, [error for _, error in outcomes if error]


def test_a_config_that_is_refused_leaves_the_workdir_free(in_bucket, hit_config):
    for _ in range(2):
        code, _, err = runs.train_here(hit_config, f"{in_bucket}/refused", "--config.model.heads=3")
        assert code == 2 and len(err.splitlines()) == 1, err
