"""`txjax verify`: shipped configs resume exactly after kills, on one and on eight devices."""

import inspect
import json
from pathlib import Path

import pytest

from txjax import config, objectives
from txjax.__main__ import main
from txjax.cli.resume_trial import compare, print_result
from txjax.objectives import Objective

from helpers import runs

ROOT = Path(__file__).parents[2]
# Overrides for a small model; the objective, the data and the rest of the config are unchanged.
SMALL = ["--config.model.width=16", "--config.model.depth=1", "--config.model.heads=2", "--config.batch_size=8"]
EMBEDDED = ("txjax_python_text", "txjax_digits")


def examples() -> dict[str, str]:
    """A config for every objective by name, on embedded data if possible; sentence pairs are one more."""
    sources = [str(path) for path in sorted((ROOT / "configs").rglob("*.py"))]
    variants = "text/glue.py:stsb", "audio/chained_digits.py:speech_transformer"
    sources += [str(ROOT / "configs" / variant) for variant in variants]
    loaded = [(source, config.load(source, [])) for source in sources]
    found = {}
    for source, experiment in sorted(loaded, key=lambda pair: getattr(pair[1].data, "name", "") not in EMBEDDED):
        pairs = " with pairs" if "next_sentence" in experiment.data.spec() else ""
        found.setdefault(type(experiment.objective).__name__ + pairs, source)
    return found


EXAMPLES = examples()


def test_every_objective_has_a_config():
    kinds = {k for k in vars(objectives).values() if isinstance(k, type) and issubclass(k, Objective)}
    assert {k.__name__ for k in kinds if k is not Objective and not inspect.isabstract(k)} <= {
        name.removesuffix(" with pairs") for name in EXAMPLES
    }


def verify(capsys, path: str, *flags: str) -> dict:
    code = main(["verify", f"--config={path}", "--json", *SMALL, *flags])
    captured = capsys.readouterr()
    assert captured.out, captured.err
    result = json.loads(captured.out.strip().splitlines()[-1])
    assert (code == 0) == result["exact"]
    return result


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "devices", "kills"),
    [("NextToken", 8, 3), ("MaskedPatch", 1, 1)],
)
def test_it_resumes_exactly(name, devices, kills, capsys, monkeypatch, tfds_dir):
    """A text objective on eight devices after every kind of interruption, an image objective on one after a SIGKILL.

    Draws of the others are keyed by the example, too: tests/test_contracts.py.
    """
    monkeypatch.setenv("TFDS_DATA_DIR", str(tfds_dir))
    for variable, value in runs.environment(devices).items():
        monkeypatch.setenv(variable, value)
    mesh = ["--config.mesh.data=1", "--config.mesh.fsdp=8"] if devices == 8 else []
    result = verify(capsys, EXAMPLES[name], f"--devices={devices}", "--steps=16", f"--kills={kills}", *mesh)
    assert result["exact"], result
    assert len(result["interruptions"]) == kills, result
    assert result["same_batches"] == "16 of 16" and result["largest_difference_of_loss"] == 0.0


def test_a_difference_is_found(straight_run, tmp_path):
    """The comparison finds one changed number, one lost row, one row twice."""
    import shutil

    assert compare(straight_run, straight_run, 40)["exact"]
    lines = (straight_run / "metrics.jsonl").read_text().splitlines(keepends=True)
    row = json.loads(lines[7])
    changed = json.dumps(row | {"train/loss": row["train/loss"] * (1 + 1e-7)}) + "\n"
    other_batch = json.dumps(row | {"train/batch_hash": 1}) + "\n"
    for i, harm in enumerate(
        (
            [*lines[:7], changed, *lines[8:]],
            [*lines[:7], other_batch, *lines[8:]],
            [*lines[:7], *lines[8:]],
            [*lines[:8], lines[7], *lines[8:]],
        )
    ):
        copy = tmp_path / str(i)
        shutil.copytree(straight_run, copy)
        (copy / "metrics.jsonl").write_text("".join(harm))
        assert not compare(straight_run, copy, 40)["exact"]


def test_the_table_has_a_row_for_every_interruption(capsys):
    result = {
        "exact": True,
        "same_batches": "12 of 12",
        "interruptions": ["SIGKILL after step 3", "SIGTERM after step 7"],
    }
    print_result("a.py", result)
    many = [f"SIGKILL after step {n}" for n in range(5)] + [f"SIGTERM after step {n}" for n in range(3)]
    print_result("a.py", result | {"interruptions": many})
    lines = [[cell.strip() for cell in line.split("│")] for line in capsys.readouterr().out.splitlines() if "│" in line]
    assert lines == [
        ["interruptions", "SIGKILL after step 3"],
        ["", "SIGTERM after step 7"],
        ["same batches", "12 of 12"],
        ["interruptions", "8 in all"],
        ["", "5 SIGKILL"],
        ["", "3 SIGTERM"],
        ["same batches", "12 of 12"],
    ]
