"""Evaluators in a run: scores in its log, files in its folder, the same from the folder alone, all in the report."""

import json

import pytest

from txjax.__main__ import main
from txjax.data import NextTokenWindows
from txjax.eval import Perplexity, Samples
from txjax.experiment import Experiment
from txjax.objectives import NextToken
from txjax.optim import AdamW, Constant
from txjax.train.trainer import train

from helpers import runs
from helpers.evaluations import Bigrams


def test_from_the_loop_to_the_report(tmp_path, capsys):
    held_out = NextTokenWindows(split="validation", length=16)
    experiment = Experiment(
        model=Bigrams(),
        objective=NextToken(),
        data=NextTokenWindows(name="txjax_python_text", length=16),
        evals={
            "valid": Perplexity(data=held_out, every_steps=2, max_batches=2),
            "written": Samples(data=held_out, every_steps=1, length=4, texts=1, prompts=("def ",)),
        },
        optimizer=AdamW(schedule=Constant(warmup_steps=1)),
        num_steps=3,
        batch_size=8,
        log_every_steps=1,
        trackers=(),
    )
    folder = tmp_path / "run"
    assert train(experiment, folder) == 0
    rows = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    assert ["eval/valid/loss" in row for row in rows] == [False, True, True]
    assert rows[1]["eval/valid/bits_per_byte"] != rows[2]["eval/valid/bits_per_byte"]
    texts = {path.stem: path.read_text() for path in (folder / "samples" / "written").iterdir()}
    assert set(texts) == {"1", "2", "3"} and all("\ndef " in text for text in texts.values())
    (folder / "samples" / "written" / "3.txt").unlink()
    capsys.readouterr()
    assert main(["evaluate", f"--workdir={folder}", "--json", "--trust=helpers"]) == 0
    scores = json.loads(capsys.readouterr().out)
    assert scores["files"] == [str(folder / name) for name in ("examples/valid/3.npz", "samples/written/3.txt")]
    for name in ("loss", "perplexity", "bits_per_byte"):
        assert scores[f"eval/valid/{name}"] == pytest.approx(rows[2][f"eval/valid/{name}"], rel=1e-6)
    assert (folder / "samples" / "written" / "3.txt").read_text() == texts["3"]
    assert main(["report", str(folder)]) == 0
    page = (folder / "report" / "index.html").read_text()
    assert "<h3>written</h3>" in page and page.index("step 3<") < page.index("step 2<") < page.index("step 1<")


def test_the_mistakes_of_all_evaluations_are_shown_together(tmp_path, capsys):
    """Their own code is traced before anything is written."""
    own = """
class Wrong(Evaluation):
    def start(self, context):
        program = context.program(lambda variables, batch: batch["nothing"])
        return lambda variables, step: list(context.run_batches(program, variables, context.source)) and {}

def get_config"""
    path, workdir = tmp_path / "own.py", tmp_path / "run"
    text = runs.CONFIG.replace("\ndef get_config", own).replace('best="eval/valid/loss"', "best=None")
    path.write_text(text.replace('evals={"valid": Evaluation(', 'evals={"a": Wrong(data=held_out), "b": Wrong('))
    assert main(["train", f"--config={path}", f"--workdir={workdir}"]) == 2
    lines = capsys.readouterr().err.splitlines()
    assert [line.partition(", got")[0] for line in lines] == [
        "txjax: config.evals.a: expected code that runs",
        "txjax: config.evals.b: expected code that runs",
    ]
    assert all("KeyError: 'nothing'" in line for line in lines) and not workdir.exists()
