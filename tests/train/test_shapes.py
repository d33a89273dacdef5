"""A step is measured once it was compiled for its batch's shapes, whatever the keys; and a data set's own keys."""

import dataclasses
from typing import ClassVar

import flax.linen as nn
import jax
import numpy as np
import pytest

from txjax.data import Dataset, train_batches
from txjax.data.loading.buckets import Bucketed, Lengths
from txjax.experiment import Experiment
from txjax.log import read_metrics
from txjax.objectives import Objective, apply_model
from txjax.optim import AdamW, Constant
from txjax.sharding import Mesh
from txjax.train.check import check
from txjax.train.state.counting import flops_per_step
from txjax.train.trainer import train
from txjax.types import Mean, UserError, spec

pytestmark = pytest.mark.claim(
    "Data",
    "every shape of a batch compiles apart and counts its own FLOPs, whatever its keys",
)

FRAMES, CUT, CHANNELS, B, STEPS = 12, 4, 3, 4, 8


@dataclasses.dataclass
class Recordings(Dataset):
    """Frames of 1 to 12 positions, and how loud they are, a key of its own."""

    frames: int = FRAMES

    def spec(self):
        arrays = {"features": spec((self.frames, CHANNELS), "float32"), "loudness": spec((), "float32")}
        return {"id": spec((), "int32"), "weights": spec((), "float32")} | arrays

    def keys(self):
        return {"loudness": ("B", "float32", "the mean of the frames")}

    def check(self):
        pass

    def open(self):
        return Opened()


class Opened(Bucketed):
    fingerprint = "recordings"

    def __init__(self):
        self.lengths = (Lengths(np.arange(40, dtype=np.int32) % FRAMES + 1, {"features": 0}),)
        self.buckets, self.sort_batches = ((CUT,), (FRAMES,)), 4

    def __len__(self):
        return 40

    def example(self, index, epoch, rng):
        features = np.zeros((FRAMES, CHANNELS), np.float32)
        features[: self.lengths[0].of[index]] = index
        one = np.ones((), np.float32)
        return {"features": features, "loudness": features.mean().reshape(()), "weights": one}


class Loudness(nn.Module):
    """A number from frames, by a method that isn't `__call__`."""

    @nn.compact
    def listen(self, features, train=False):
        return nn.Dense(1)(nn.relu(nn.Dense(8)(features))).mean(1)[:, 0]


@dataclasses.dataclass
class Listening(Objective):
    """Squared error of the loudness."""

    required_keys: ClassVar[tuple[str, ...]] = ("id", "features", "loudness", "weights")

    def inputs(self, model, batch):
        return {"features": batch["features"]}

    def init(self, model, rngs, batch):
        return model.init(rngs, **self.inputs(model, batch), method="listen")

    def __call__(self, model, variables, batch, key, train):
        found, aux = apply_model(model, variables, self.inputs(model, batch), batch, key, train, method="listen")
        return aux.outcome({"loudness": Mean.of((found - batch["loudness"]) ** 2, batch["weights"])}, {})


@pytest.fixture
def experiment():
    return Experiment(
        model=Loudness(),
        objective=Listening(),
        data=Recordings(),
        optimizer=AdamW(schedule=Constant(warmup_steps=1)),
        num_steps=STEPS,
        batch_size=B,
        log_every_steps=1,
        trackers=(),
    )


def test_every_shape_compiles_apart_and_counts_its_own_flops(experiment, tmp_path, monkeypatch):
    one = Mesh().build(jax.devices()[:1])
    monkeypatch.setattr(Mesh, "build", lambda self, devices: one)
    assert train(experiment, tmp_path) == 0
    rows = {row["step"]: row for row in read_metrics(tmp_path)}
    batches = train_batches(experiment.data.open(), batch_size=B, seed=experiment.seed)
    seen = set()
    for step in range(1, STEPS + 1):
        frames = next(batches)["features"].shape[1]
        if frames not in seen:
            assert "perf/step_ms" not in rows[step], "a step that compiled is no measure"
        else:
            flops = flops_per_step(dataclasses.replace(experiment, data=Recordings(frames)))
            assert rows[step]["perf/flops_per_s"] * rows[step]["perf/step_ms"] / 1e3 == pytest.approx(flops)
        seen.add(frames)
    batches.close()
    assert seen == {CUT, FRAMES}


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        (
            {"louder": ("B", "float32", "")},
            "config.data: expected Recordings.spec.. with keys of .*did you mean louder",
        ),
        ({"loudness": ("B T", "float32", "")}, r"loudness as float32 \[B T\], B aside, got 'float32\[\]'"),
        ({"loudness": ("B", "int32", "")}, "loudness as int32"),
    ],
)
def test_keys_that_are_not_declared_or_differ(experiment, monkeypatch, keys, message):
    monkeypatch.setattr(Recordings, "keys", lambda self: keys)
    with pytest.raises(UserError, match=message):
        check(experiment)
