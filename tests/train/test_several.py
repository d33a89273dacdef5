"""Training with several real processes: the same numbers as with one, and an end for everybody when one goes wrong."""

import json
import re
import shutil
import signal
import time

import pytest

from txjax.cli.resume_trial import equal_arrays

from helpers.runs import CONFIG, FAULTY, ended, rows, start_several, train, train_here, train_several, wait_for_step

pytestmark = pytest.mark.claim(
    "Parallelism",
    "several processes: batches, numbers, resume, failures (`pytest -m slow -s -k dead_or_frozen` prints the times)",
)

HEARTBEAT = 10  # seconds


@pytest.fixture(scope="module")
def faulty(tmp_path_factory):
    """A config file whose data fail where the environment says so."""
    path = tmp_path_factory.mktemp("configs") / "faulty.py"
    path.write_text(FAULTY)
    return path


@pytest.fixture(scope="module")
def straight(config, tmp_path_factory):
    """20 steps by one process with two devices."""
    workdir = tmp_path_factory.mktemp("straight") / "run"
    code, _, err = train(config, workdir, "--until=20", devices=2)
    assert code == 0, err
    return workdir


@pytest.mark.slow
def test_two_processes_train_what_one_does_and_one_resumes(config, tmp_path):
    one, two = tmp_path / "one", tmp_path / "two"
    code, _, err = train(config, one, "--until=12", devices=2)
    assert code == 0, err
    train_several(2, config, two, "--until=10")
    assert rows(two) == rows(one)[:10]  # losses, evaluations and hashes of the batches, bit for bit
    assert {p.name for p in (two / "logs").iterdir()} == {"process_0.log", "process_1.log", "failures.jsonl"}
    assert json.loads((two / "manifest.json").read_text())["processes"] == 2
    code, _, err = train(config, two, "--until=12", devices=2)
    assert code == 0 and "resuming at step 10" in err, err
    assert rows(two) == rows(one)
    same, count = equal_arrays(one, two, 12)
    assert same == count > 0


def assert_near(left, right):
    """The same batches; sums over more than two devices are added in another order."""
    assert [row["step"] for row in left] == [row["step"] for row in right]
    for row, expected in zip(left, right, strict=True):
        assert row["train/batch_hash"] == expected["train/batch_hash"]
        assert row["train/loss"] == pytest.approx(expected["train/loss"], rel=1e-5)


@pytest.mark.slow
def test_four_two_and_one_process_resume_from_each_other(config, straight, tmp_path):
    workdir = tmp_path / "run"
    train_several(4, config, workdir, "--until=5")
    half = shutil.copytree(workdir, tmp_path / "half")
    train_several(2, config, workdir, "--until=10", devices=2)
    code, _, err = train(config, workdir, "--until=15", devices=4)
    assert code == 0, err
    train_several(2, config, workdir, "--until=20")
    assert_near(rows(workdir), rows(straight))
    code, _, err = train_here(config, half, "--until=20")
    assert code == 0, err
    assert_near(rows(half), rows(straight))


@pytest.mark.slow
@pytest.mark.parametrize("mesh", [["--config.mesh.tensor=2", "--config.mesh.data=1"], ["--config.mesh.fsdp=2"]])
def test_a_model_split_over_processes_sees_the_same_batches(config, straight, tmp_path, mesh):
    """With tensor=2 both processes read every row; what is logged is the hash of the batch all the same."""
    train_several(2, config, tmp_path / "run", "--until=5", *mesh)
    assert_near(rows(tmp_path / "run"), rows(straight)[:5])


@pytest.mark.slow
def test_every_example_is_evaluated_once(config, straight, tmp_path):
    whole = ["--config.evals.valid.max_batches=None", "--config.evals.valid.data.split=validation[:3%]"]
    train_several(2, config, tmp_path / "run", "--until=10", *whole)
    code, _, err = train(config, tmp_path / "one", "--until=10", *whole, devices=2)
    assert code == 0, err
    score = rows(tmp_path / "run")[9]["eval/valid/loss"]
    assert score == rows(tmp_path / "one")[9]["eval/valid/loss"]
    found = ended(start_several(2, config, tmp_path / "run", "--json", command="evaluate"))
    assert [code for code, _, _ in found] == [0, 0], found
    assert json.loads(found[0][1].splitlines()[-1])["eval/valid/loss"] == score
    assert "{" not in found[1][1]  # process 0 speaks


def wait_for_message(workdir, message):
    path, deadline = workdir / "logs" / "process_0.log", time.monotonic() + 120
    while not (path.exists() and message in path.read_text()):
        assert time.monotonic() < deadline
        time.sleep(0.01)


@pytest.mark.slow
@pytest.mark.parametrize(("number", "when"), [("SIGTERM", "stepping"), ("SIGINT", "compiling")])
def test_a_signal_to_any_process_saves_the_same_step(config, straight, tmp_path, number, when):
    workdir = tmp_path / "run"
    processes = start_several(2, config, workdir)
    if when == "compiling":
        wait_for_message(workdir, "starting: ")
    else:
        wait_for_step(processes[0], workdir, 3)
    processes[1].send_signal(getattr(signal, number))
    found = ended(processes)
    assert [code for code, _, _ in found] == [75, 75], found
    last = rows(workdir)[-1]["step"]
    assert (workdir / "checkpoints" / str(last) / "digests.json").exists() and last < 40
    if when == "stepping":
        train_several(2, config, workdir, f"--until={max(20, last)}")
        assert rows(workdir)[:20] == rows(straight)


# A config file at whose loading process 1 sends itself a signal; the others wait 20 s for it.
STARTING = (
    CONFIG
    + """
import functools, os, signal, sys
from txjax import distributed

distributed.start = functools.partial(distributed.start, timeout_seconds=20)
if "--process_index=1" in sys.argv:
    os.kill(os.getpid(), getattr(signal, os.environ["SIGNAL"]))
"""
)


@pytest.mark.slow
@pytest.mark.parametrize("number", ["SIGTERM", "SIGINT"])
def test_a_signal_before_all_have_joined_is_held(tmp_path, number):
    workdir, config = tmp_path / "run", tmp_path / "starting.py"
    config.write_text(STARTING)
    ends = ended(start_several(2, config, workdir, variables={"SIGNAL": number}), 120)
    assert [code for code, _, _ in ends] == [75, 75], ends
    assert "stopping once all processes have joined" in ends[1][2]
    assert (workdir / "checkpoints" / str(rows(workdir)[-1]["step"]) / "digests.json").exists()


# A config file with which process 0 sends itself a signal when it has trained, as soon as the loop ended or later.
ENDING = (
    CONFIG
    + """
import os, signal, sys, time
from txjax.cli import train_modes
from txjax.train.run.preemption import Preemption

def before(owner, name):
    function = getattr(owner, name)
    def wrapped(*args):
        os.kill(os.getpid(), signal.SIGTERM)
        time.sleep(2 if owner is train_modes else 0)  # JAX looks every second
        return function(*args)
    setattr(owner, name, wrapped)

if "--process_index=0" in sys.argv:
    before(*((Preemption, "__exit__") if os.environ["MOMENT"] == "loop" else (train_modes, "last_line")))
"""
)


@pytest.mark.slow
@pytest.mark.parametrize("moment", ["loop", "later"])
def test_a_signal_after_the_last_step_changes_nothing(tmp_path, moment):
    config = tmp_path / "ending.py"
    config.write_text(ENDING)
    ends = ended(start_several(2, config, tmp_path / "run", "--until=10", variables={"MOMENT": moment}), 90)
    assert [code for code, _, _ in ends] == [0, 0], ends


@pytest.mark.slow
def test_a_process_that_is_killed_before_it_joined_ends_the_others_in_one_line(tmp_path):
    config = tmp_path / "starting.py"
    config.write_text(STARTING)
    (first, second) = ended(start_several(2, config, tmp_path / "run", variables={"SIGNAL": "SIGKILL"}), 120)
    assert second[0] == -signal.SIGKILL
    assert first[0] == 2 and len(first[2].splitlines()) == 1 and "did not connect within 20 s" in first[2], first


@pytest.mark.slow
def test_an_error_of_one_process_ends_all(faulty, tmp_path):
    variables = {"FAULTY_PROCESS": "1", "FAULT": "raise"}
    processes = start_several(2, faulty, tmp_path / "run", variables=variables)
    wait_for_step(processes[0], tmp_path / "run", 3)
    found = ended(processes, 60)
    assert [code for code, _, _ in found] == [1, 1], found
    assert "Traceback" in found[1][2] and "the data are on fire" in found[1][2]
    assert "process 1" in found[0][2] and "the data are on fire" in found[0][2], found[0][2]
    assert "Traceback" not in found[0][2]


@pytest.mark.slow
def test_other_data_are_noticed(faulty, tmp_path):
    variables = {"FAULTY_PROCESS": "1", "FAULT": "other data"}
    found = ended(start_several(2, faulty, tmp_path / "run", variables=variables))
    assert [code for code, _, _ in found] == [1, 1], found
    assert all("the data of train on process 1" in err for _, _, err in found), found


@pytest.mark.slow
@pytest.mark.parametrize("number", ["SIGKILL", "SIGSTOP"])
def test_a_dead_or_frozen_process_ends_the_others(config, tmp_path, number):
    processes = start_several(2, config, tmp_path / "run", f"--config.heartbeat_timeout_seconds={HEARTBEAT}")
    wait_for_step(processes[0], tmp_path / "run", 3)
    begun = time.monotonic()
    processes[1].send_signal(getattr(signal, number))
    ((code, _, err),) = ended(processes[:1], 100)
    print(f"{number}: the other ended after {time.monotonic() - begun:.1f} s with {code}")
    processes[1].kill()
    processes[1].communicate()
    assert code not in (0, 75) and time.monotonic() - begun < 2 * HEARTBEAT + 10, err


@pytest.mark.slow
@pytest.mark.parametrize(("count", "number"), [(2, 1), (3, 2), (2, 0)])
def test_a_process_that_is_killed_in_a_step_is_named_by_the_others_in_one_line(
    config, straight, tmp_path, count, number
):
    """Process 0 serves JAX's coordination: at its death JAX may abort the others first, with lines of its own."""
    workdir = tmp_path / "run"
    processes = start_several(count, config, workdir, "--config.batch_size=12", "--config.num_steps=1000000")
    wait_for_step(processes[0], workdir, 13)
    processes[number].kill()
    for code, _, err in ended(processes[:number] + processes[number + 1 :], 60):
        lines = [line for line in err.splitlines() if line.startswith("txjax: ")]
        assert "Traceback" not in err, err
        if number:
            assert code == 1 and len(lines) == 1, err
            assert re.search(rf"in step \d+: process {number} \(.+\) died, or does not answer \(.+start all", lines[0])
        else:
            assert code == -signal.SIGABRT or code == 1 and f"process {number} (" in lines[0], err
    processes[number].communicate()


@pytest.fixture(scope="module")
def evaluated(tmp_path_factory):
    """A run whose evaluation reads faulty data where the environment says so."""
    folder = tmp_path_factory.mktemp("evaluated")
    (folder / "faulty.py").write_text(FAULTY.replace("held_out = NextTokenWindows(", "held_out = Faulty("))
    code, _, err = train(folder / "faulty.py", folder / "run", "--until=2")
    assert code == 0, err
    return folder / "run"


@pytest.mark.slow
@pytest.mark.parametrize(("count", "number"), [(2, 1), (3, 2), (2, 0)])
def test_a_process_that_is_killed_while_it_evaluates_is_named_by_the_others_in_one_line(evaluated, count, number):
    flags = ["--trust=helpers.faulty_data", "--config.evals.valid.max_batches=None", "--config.batch_size=12"]
    variables = {"FAULTY_PROCESS": str(number), "FAULT": "kill"}
    ends = ended(start_several(count, "", evaluated, *flags, command="evaluate", variables=variables), 90)
    assert ends.pop(number)[0] == -signal.SIGKILL
    for code, out, err in ends:
        lines = [line for line in err.splitlines() if line.startswith("txjax: ")]
        assert "Traceback" not in err and "value" not in out, err
        assert code == (1 if lines else -signal.SIGABRT), err  # JAX may abort it first, at the death of process 0
        assert not number or len(err.splitlines()) == 1, err
        assert all(re.search(rf"evaluating .+: process {number} \(.+\) died, or does not", line) for line in lines)
        assert lines or not number


@pytest.mark.slow
def test_an_error_in_an_evaluation_of_one_process_ends_all(evaluated):
    flags = ["--trust=helpers.faulty_data", "--config.evals.valid.max_batches=None"]
    variables = {"FAULTY_PROCESS": "1", "FAULT": "raise"}
    first, second = ended(start_several(2, "", evaluated, *flags, command="evaluate", variables=variables), 90)
    assert first[0] == second[0] == 2 and "the data are on fire" in second[2], second
    assert len(first[2].splitlines()) == 1 and "process 1" in first[2] and "the data are on fire" in first[2], first


@pytest.mark.slow
@pytest.mark.parametrize("count", [1, 2])
def test_a_stuck_process_says_where_and_ends(faulty, tmp_path, count):
    workdir, variables = tmp_path / "run", {"FAULTY_PROCESS": str(count - 1), "FAULT": "sleep"}
    processes = start_several(count, faulty, workdir, "--config.step_timeout_seconds=15", variables=variables)
    found = ended(processes)
    assert [code for code, _, _ in found] == [1] * count, found
    stuck = f"stuck_process_{count - 1}.txt"
    assert any(f"process {count - 1}" in err and "waiting for the data of step" in err for _, _, err in found), found
    assert "waiting for the data" in (workdir / "logs" / stuck).read_text()
    assert "faulty_data.py" in (workdir / "logs" / stuck).read_text()  # the stacks


@pytest.mark.slow
def test_a_second_run_in_the_workdir_is_refused_by_all(config, tmp_path):
    workdir = tmp_path / "run"
    (one,) = start_several(1, config, workdir, "--config.num_steps=1000000")
    wait_for_step(one, workdir, 1)
    found = ended(start_several(2, config, workdir, "--config.num_steps=1000000"))
    one.terminate()
    assert ended([one])[0][0] == 75
    assert [code for code, _, _ in found] == [2, 2], found
    assert all("no other run is using" in err for _, _, err in found), found
