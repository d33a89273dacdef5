"""`txjax merge`: a run's parallel branches and adapters in its kernels, as a workdir that other commands read."""

import json
from pathlib import Path

import numpy as np
import pytest

from txjax.__main__ import main

from helpers import runs

REPLKNET = """
from txjax.checkpoint import Checkpoints
from txjax.data import Images
from txjax.eval import Evaluation
from txjax.experiment import Experiment
from txjax.models import Stage
from txjax.models.vision.rep_lk_net import RepLKNet
from txjax.nn import Classes, ConvEmbedding, MeanTokens
from txjax.objectives import Classification
from txjax.optim import EMA, AdamW, Constant

def get_config():
    return Experiment(
        model=RepLKNet(
            stages=(Stage(8, 1),), sides=(7,), stem=ConvEmbedding(), head=Classes(10, MeanTokens())
        ),
        objective=Classification(),
        data=Images(name="txjax_digits", split="train", shape=(8, 8, 1)),
        evals={"test": Evaluation(data=Images(split="test", shape=(8, 8, 1)), every_steps=4, max_batches=2)},
        optimizer=AdamW(peak_lr=1e-2, schedule=Constant()),
        ema=EMA(decay=0.5),
        checkpoint=Checkpoints(every_steps=4),
        num_steps=4,
        batch_size=16,
        trackers=(),
    )
"""


def ask(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, str, str]:
    code = main(list(map(str, words)))
    return code, *capsys.readouterr()


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("branches")
    (folder / "config.py").write_text(REPLKNET)
    code, _, err = runs.train_here(folder / "config.py", folder / "run")
    assert code == 0, err
    return folder / "run"


@pytest.mark.slow
def test_the_merged_run_scores_the_same_and_can_be_trained(trained, tmp_path, capsys) -> None:
    to = tmp_path / "merged"
    code, out, err = ask(capsys, "merge", f"--workdir={trained}", f"--to={to}")
    assert code == 0 and "step 4" in out, err
    scores = []
    for workdir in (trained, to):
        code, out, err = ask(capsys, "evaluate", f"--workdir={workdir}", "--json")
        assert code == 0, err
        scores.append(json.loads(out))
    np.testing.assert_allclose(scores[1]["eval/test/loss"], scores[0]["eval/test/loss"], rtol=1e-4)
    assert "MergedKernel" in (to / "config.json").read_text()

    code, _, err = ask(capsys, "merge", f"--workdir={trained}", f"--to={to}")
    assert code == 2 and "--to: expected a new folder" in err
    code, _, err = ask(capsys, "merge", f"--workdir={to}", f"--to={tmp_path / 'again'}")
    assert code == 2 and "expected ParallelKernels(), to be merged" in err


@pytest.mark.slow
def test_an_adapter_is_merged_into_the_kernels_that_it_adapts(tmp_path, capsys) -> None:
    adapted = runs.CONFIG.replace("heads=2)", "heads=2, adapter=LoRA(rank=2))").replace("num_steps=40", "num_steps=10")
    (tmp_path / "config.py").write_text("from txjax.nn.adapters import LoRA\n" + adapted)
    code, _, err = runs.train_here(tmp_path / "config.py", tmp_path / "run")
    assert code == 0, err
    code, _, err = ask(capsys, "merge", f"--workdir={tmp_path / 'run'}", f"--to={tmp_path / 'merged'}")
    assert code == 0, err
    scores = []
    for name in ("run", "merged"):
        code, out, err = ask(capsys, "evaluate", f"--workdir={tmp_path / name}", "--json")
        assert code == 0, err
        scores.append(json.loads(out)["eval/valid/loss"])
    np.testing.assert_allclose(scores[1], scores[0], rtol=1e-5)
    assert "LoRA" not in (tmp_path / "merged" / "config.json").read_text()


def test_a_run_with_nothing_to_merge_is_a_user_error(straight_run, tmp_path, capsys) -> None:
    code, _, err = ask(capsys, "merge", f"--workdir={straight_run}", f"--to={tmp_path / 'x'}")
    assert code == 2 and "with parallel branches, an adapter or quantized kernels, got 'Decoder'" in err
    assert not (tmp_path / "x").exists()
