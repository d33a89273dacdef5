"""`benchmarks/accelerator.py`: finished cases are not run again, failures are recorded, and the others continue."""

import json
import os
import signal
import subprocess
import sys
import types
from pathlib import Path

import pytest

BENCHMARKS = Path(__file__).parents[1] / "benchmarks"
PARTS = sorted(path.name.removesuffix("_part.py") for path in (BENCHMARKS / "parts").glob("*_part.py"))


@pytest.fixture
def accelerator(root, monkeypatch):
    """The script with one stub part; its subprocesses are function calls."""
    monkeypatch.syspath_prepend(str(root / "benchmarks"))
    import accelerator
    from results import Unavailable

    ran = []

    def measure(name):
        ran.append(name)
        if name == "dies" and ran.count(name) == 1:
            raise KeyboardInterrupt  # nothing is written for the case, as in a crash
        if name == "fails":
            raise ValueError("no such\nkernel")
        if name == "elsewhere":
            raise Unavailable("needs a GPU")
        return {"ms": 3}

    def run(book, tiny):
        for name in ("one", "dies", "fails", "elsewhere", "last"):
            book.case(name, lambda name=name: measure(name))

    def table(book):
        return ["case", "ms"], [[name, record.get("result", {}).get("ms")] for name, record in book.done.items()]

    def process(words, **_):
        if words[1] == "-c":
            return types.SimpleNamespace(stdout="chip\n")
        try:
            return types.SimpleNamespace(returncode=accelerator.main(words[2:]))
        except KeyboardInterrupt:
            return types.SimpleNamespace(returncode=-signal.SIGABRT)

    monkeypatch.setattr(accelerator, "PARTS", ("stub",))
    monkeypatch.setitem(sys.modules, "parts.stub_part", types.SimpleNamespace(TITLE="Stubs", run=run, table=table))
    monkeypatch.setattr(accelerator.subprocess, "run", process)
    monkeypatch.setattr(signal, "alarm", lambda seconds: None)
    return types.SimpleNamespace(main=accelerator.main, ran=ran)


def records(folder):
    return {record["case"]: record for record in map(json.loads, (folder / "stub.jsonl").read_text().splitlines())}


def test_cases_that_fail_are_recorded_and_nothing_is_run_twice(accelerator, tmp_path, capsys):
    flags = ["--parts=stub", f"--out={tmp_path}"]
    assert accelerator.main(flags) == 1
    assert accelerator.ran == ["one", "dies", "fails", "elsewhere", "last"]
    found = records(tmp_path)
    assert found["one"]["result"] == found["last"]["result"] == {"ms": 3}
    assert found["fails"]["error"] == "ValueError: no such kernel"
    assert found["dies"]["error"] == "the process ended by SIGABRT"
    assert found["elsewhere"]["unavailable"] == "needs a GPU"
    out = capsys.readouterr().out
    assert "| case | ms |" in out and "| one | 3 |" in out and "fails: failed: ValueError: no such kernel" in out

    assert accelerator.main(flags) == 1 and len(accelerator.ran) == 5
    assert accelerator.main([*flags, "--retry"]) == 1
    assert accelerator.ran[5:] == ["dies", "fails"] and records(tmp_path)["dies"]["result"] == {"ms": 3}
    assert accelerator.main(["--parts=", f"--out={tmp_path}"]) == 1 and len(accelerator.ran) == 7


def test_a_command_that_times_out_or_is_stopped_resumes(accelerator, tmp_path):
    flags = ["--parts=stub", f"--out={tmp_path}"]
    assert accelerator.main([*flags, "--minutes=-1"]) == 0 and not accelerator.ran
    (tmp_path / "running.json").write_text(json.dumps({"part": "stub", "case": "one"}))
    accelerator.main(flags)
    assert records(tmp_path)["one"]["result"] == {"ms": 3}


def test_results_of_another_device_are_left_aside(accelerator, tmp_path):
    (tmp_path / "stub.jsonl").write_text(json.dumps({"case": "one", "device": "other", "result": {"ms": 9}}) + "\n")
    accelerator.main(["--parts=stub", f"--out={tmp_path}"])
    assert accelerator.ran[0] == "one"


def test_every_choice_of_the_search_is_a_config(accelerator):
    from parts.steps import load
    from parts.train_part import FP8, SEARCH

    for name, axes in SEARCH.items():
        for choice in [FP8, *(choice for axis in axes for choice in axis)]:
            load(name, choice, tiny=False)


def test_the_notebook_runs_every_part_but_the_profile():
    cells = json.loads((BENCHMARKS / "accelerator.ipynb").read_text())["cells"]
    lines = [
        line.strip() for cell in cells if cell["cell_type"] == "code" for line in "".join(cell["source"]).split("\n")
    ]
    commands = [line.split() for line in lines if "accelerator.py" in line]
    parts = [part for words in commands for part in words[2].removeprefix("--parts=").split(",")]
    assert sorted([*parts, "profile"]) == PARTS and all(words[3:] == ["--out=results"] for words in commands)


@pytest.mark.slow
@pytest.mark.parametrize("part", PARTS)
def test_every_part_runs(part, tmp_path):
    """At tiny sizes, optimised as for a user. The plan is compared with what the steps measured."""
    parts = "train,plan" if part == "plan" else part
    words = [sys.executable, BENCHMARKS / "accelerator.py", "--tiny", f"--parts={parts}", f"--out={tmp_path}"]
    plain = {name: value for name, value in os.environ.items() if name != "XLA_FLAGS"}
    done = subprocess.run(words, env=plain, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    assert (tmp_path / f"{part}.jsonl").read_text()
