"""Real signals at exact moments, which a process sends to itself; it resumes bit for bit."""

import os
import subprocess
import sys

import pytest

from helpers import runs

# The config file also wraps one function of txjax, which sends the signal before its n-th call.
HIT = """
import os, signal, threading, time

moment, number, after = os.environ.get("HIT", "nothing:0:0").split(":")

def hit():
    os.kill(os.getpid(), int(number))

def before(owner, name, call=hit):
    function, calls = getattr(owner, name), []
    def wrapped(*args, **kwargs):
        calls.append(1)
        if len(calls) == int(after):
            call()
        return function(*args, **kwargs)
    setattr(owner, name, wrapped)

def stepping(call):
    import txjax.train.prepare as prepare
    make = prepare.trace_step
    def trace_step(*args):
        class Owner: call = staticmethod(make(*args))
        before(Owner, "call", call)
        return Owner.call
    prepare.trace_step = trace_step

if moment == "loading":
    hit()
elif moment == "preparing":
    before(NextTokenWindows, "open")
elif moment == "compiling":
    stepping(lambda: threading.Timer(0.05, hit).start())
elif moment == "stepping":
    stepping(hit)
elif moment == "evaluating":
    import txjax.train.run_eval as run_eval
    before(run_eval.Evaluations, "__call__")
elif moment == "stuck":
    import txjax.train.run_eval as run_eval
    def wait():
        os.write(2, b"it is stuck\\n")
        while True:  # one long sleep would not notice a signal that comes just before it
            time.sleep(0.1)
    before(run_eval.Evaluations, "__call__", wait)
elif moment == "saving":
    import txjax.checkpoint as checkpoint
    before(checkpoint.Store, "_commit")
elif moment == "flushing":
    import txjax.io.digest as digest
    before(digest, "commit")
elif moment == "saved":
    import txjax.checkpoint as checkpoint
    before(checkpoint.Store, "forget_old")
elif moment == "forgetting":
    import shutil, sys
    remove = shutil.rmtree
    def rmtree(*args, **kwargs):
        if sys._getframe(1).f_code.co_name == "_forget":
            hit()
        remove(*args, **kwargs)
    shutil.rmtree = rmtree
"""


@pytest.fixture(scope="module")
def hit_config(tmp_path_factory):
    path = tmp_path_factory.mktemp("hit") / "small.py"
    path.write_text(runs.CONFIG + HIT)
    return path


def train(path, workdir, hit: str, *flags: str) -> tuple[int, str]:
    os.environ["HIT"] = hit
    try:
        code, out, err = runs.train(path, workdir, *flags)
    finally:
        del os.environ["HIT"]
    return code, out + err


def steps(workdir) -> list[int]:
    return sorted(int(p.parent.name) for p in (workdir / "checkpoints").glob("*/digests.json"))


def test_sigterm_before_there_is_anything_to_save(hit_config, tmp_path):
    code, said = train(hit_config, tmp_path / "run", "loading:15:0")
    assert code == 75 and "before the first step" in said and not (tmp_path / "run").exists(), said
    code, said = train(hit_config, tmp_path / "run", "preparing:15:1")
    assert code == 75 and "before the first step" in said and not steps(tmp_path / "run"), said


CATCHING = """
import os, signal
from txjax.train.run.preemption import exit_on_signal

with exit_on_signal():
    try:
        os.kill(os.getpid(), signal.SIGTERM)
    except BaseException:
        raise ValueError("what a library makes of whatever is raised inside it")
"""


def test_no_library_replaces_the_sigterm_handler():
    environment = os.environ | {"PYTHONPATH": runs.PATHS[0]}
    done = subprocess.run([sys.executable, "-c", CATCHING], env=environment, capture_output=True, text=True)
    assert done.returncode == 75 and "before the first step" in done.stderr, done.stderr


@pytest.mark.slow
def test_sigterm_while_compiling_stepping_evaluating_and_saving(hit_config, straight_run, tmp_path):
    workdir = tmp_path / "run"
    for hit, saved in (("compiling:15:1", {1}), ("stepping:15:5", {6}), ("evaluating:15:1", {10})):
        code, said = train(hit_config, workdir, hit)
        assert code == 75 and f"saved at step {max(saved)}" in said, (hit, said)
        assert steps(workdir)[-1] in saved, hit
    code, said = train(hit_config, workdir, "saving:15:1")
    assert code == 75 and steps(workdir)[-1] >= 20, said
    assert runs.train_here(hit_config, workdir)[0] == 0
    assert runs.rows(workdir) == runs.rows(straight_run)


@pytest.mark.slow
def test_sigkill_in_and_out_of_saves(hit_config, straight_run, tmp_path):
    workdir = tmp_path / "run"
    for hit, saved in (
        ("preparing:9:1", [[]]),
        ("compiling:9:1", [[]]),
        ("stepping:9:5", [[]]),
        ("evaluating:9:1", [[], [10]]),  # of step 10, whose save is under way or done
        ("saving:9:1", [[]]),
        ("flushing:9:1", [[]]),
        ("saved:9:1", [[10]]),
        ("stepping:9:15", [[10], [10, 20]]),  # the save of step 20 may be under way
        ("forgetting:9:0", [[20], [10, 20], [20, 30], [10, 20, 30], [30], [30, 40], [20, 40], [10, 40]]),
    ):
        keep = ["--config.checkpoint.keep=1"] if "forgetting" in hit else []
        code, said = train(hit_config, workdir, hit, *keep)
        assert code == -9 and steps(workdir) in saved, (hit, steps(workdir), said)
    assert runs.train_here(hit_config, workdir)[0] == 0
    assert runs.rows(workdir) == runs.rows(straight_run)


def test_a_second_sigterm_exits_at_once(hit_config, tmp_path):
    """In a step that never ends the first signal can only print its message."""
    process = runs.start(hit_config, tmp_path / "run", variables={"HIT": "stuck:0:1"})
    assert process.stderr is not None
    for said in ("it is stuck", "finishing this step and saving it"):
        assert any(said in line for line in process.stderr), said
        process.terminate()
    process.communicate(timeout=60)
    assert process.returncode == 143
