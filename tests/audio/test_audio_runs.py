"""A run on a folder of recordings, from the command line."""

import json

import numpy as np
import pytest

from txjax.__main__ import main

from helpers.audio_set import file, level, write_folder

CONFIG = """
import dataclasses
from typing import Any

from txjax.data import LabelledAudio, Speed
from txjax.eval import Evaluation
from txjax.experiment import Experiment
from txjax.models.audio.audio_encoder import AudioEncoder
from txjax.nn import Classes, MeanTokens
from txjax.objectives import Classification
from txjax.optim import AdamW, Constant


@dataclasses.dataclass(frozen=True)
class Frames:
    \"\"\"Frames of samples as they are.\"\"\"

    size: int = 20

    def __call__(self, audio: Any, audio_length: Any) -> Any:
        return audio.reshape(len(audio), -1, self.size), audio_length // self.size


def get_config():
    train = LabelledAudio(rate=8000, samples=2000, speed=Speed((0.8, 1.0)), buckets=(1200,), sort_batches=2)
    return Experiment(
        model=AudioEncoder(front_end=Frames(), width=8, depth=1, heads=2, head=Classes(None, MeanTokens())),
        objective=Classification(),
        data=train,
        evals={"test": Evaluation(data=LabelledAudio(split="test"))},
        optimizer=AdamW(schedule=Constant(warmup_steps=1)),
        num_steps=3,
        batch_size=4,
        trackers=(),
    )
"""


@pytest.fixture
def train(tmp_path):
    files = {f"{n}.wav": file(level(n, 800 + 100 * n)) for n in range(8)}
    rows = [{"audio": name, "label": ("low", "high")[n > 3]} for n, name in enumerate(files)]
    data_dir = write_folder(tmp_path / "levels", files, {"train": rows, "test": rows[:5]})
    (tmp_path / "config.py").write_text(CONFIG)
    flags = [f"--config={tmp_path / 'config.py'}", f"--workdir={tmp_path / 'run'}"]
    return lambda *more: main(["train", *flags, f"--config.data.source={data_dir}", *more])


@pytest.mark.slow
def test_recordings_are_trained_on_and_evaluated(train, tmp_path):
    assert train() == 0
    row = json.loads((tmp_path / "run" / "metrics.jsonl").read_text().splitlines()[-1])
    assert np.isfinite(row["eval/test/loss"])
    config = json.loads((tmp_path / "run" / "config.json").read_text())
    assert config["model"]["head"]["classes"] == 2 and config["evals"]["test"]["data"]["rate"] == 8000


@pytest.mark.parametrize(
    ("damage", "flag", "message"),
    [
        (
            b"RIFF",
            "--config.data.stored_rate=None",
            "config.data.unusable: expected usable recordings, got '/",
        ),
        (
            b"",
            "--config.data.rate_feature=speed",
            "config.data.rate_feature: expected a feature of kind Tensor or Scalar",
        ),
        (b"", "--config.data.samples=1700", "config.data.too_long: expected records of at most samples = 1700 at the "),
        (b"", "--config.data.buckets=(3000,)", "config.data.buckets: expected ascending lengths, at most data.samples"),
    ],
)
def test_unusable_data_are_one_line_before_training(train, tmp_path, capsys, damage, flag, message):
    if damage:
        (tmp_path / "levels" / "6.wav").write_bytes(damage)
    assert train(flag) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith(f"txjax: {message}"), line
