"""A run with CTC that hears texts without being trained: the level of a recording is the symbol."""

import dataclasses
from pathlib import Path
from typing import Any

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np

from txjax.checkpoint import Checkpoints
from txjax.data import Characters, Utterances
from txjax.experiment import Experiment
from txjax.models.audio.audio_encoder import with_features
from txjax.models.model import Model
from txjax.nn.audio.spec_augment import AxisMasks, SpecAugment
from txjax.objectives import CTC
from txjax.optim import AdamW, Constant
from txjax.types import Batch

from helpers.audio_set import file, write_folder

ALPHABET = " ab"
BLANK = 3
RECORDINGS = {  # by file: the transcript, and symbols (None is silence) with their numbers of samples at 8 kHz
    "ab_b.wav": ("ab b", ((None, 320), ("a", 480), ("b", 480), (" ", 320), ("b", 640), (None, 160))),
    "b.wav": ("b", ((None, 160), ("b", 800))),
    "short.wav": ("ababa", (("a", 320), ("b", 160))),  # three frames of logits for five symbols
}


@dataclasses.dataclass(frozen=True)
class LevelFrames:
    """A front end: each frame of `hop` samples is 20 at the symbol of its level, (symbol + 1) / 16, else 0."""

    hop: int = 80

    def __call__(self, audio: jax.Array, audio_length: jax.Array) -> tuple[jax.Array, jax.Array]:
        frames = audio[:, : audio.shape[1] // self.hop * self.hop].reshape(len(audio), -1, self.hop)
        symbols = jnp.round(16 * frames.mean(-1)).astype(jnp.int32) - 1
        return 20 * jax.nn.one_hot(jnp.where(symbols < 0, BLANK, symbols), BLANK + 1), audio_length // self.hop


class LevelTexts(Model, kw_only=True):
    """Logits are the features of every other frame, times a parameter that is about 1."""

    front_end: LevelFrames = dataclasses.field(default_factory=LevelFrames)

    @nn.nowrap
    def inputs(self, batch: Batch) -> dict[str, Any]:
        return super().inputs(with_features(self.front_end, batch))

    @nn.nowrap
    def output_length(self, frames: Any) -> Any:
        return frames // 2

    @nn.compact
    def __call__(self, features: jax.Array, features_length: jax.Array, train: bool = False) -> jax.Array:
        return self.param("scale", nn.initializers.ones, ()) * features[:, 1::2]


def experiment(folder: Path) -> Experiment:
    """A run of one step on these recordings, which are written to the folder."""
    files = {
        name: file(np.concatenate([np.full(size, _level(symbol), np.float32) for symbol, size in parts]))
        for name, (_, parts) in RECORDINGS.items()
    }
    rows = [{"audio": name, "text": text} for name, (text, _) in RECORDINGS.items()]
    data_dir = write_folder(folder, files, {"train": rows, "test": rows})
    fields: dict[str, Any] = dict(rate=8000, samples=2400, length=6, tokenizer=Characters(ALPHABET))
    masks = SpecAugment(frequency=AxisMasks(count=1, width=2), time=AxisMasks(count=2, width=8))
    return Experiment(
        model=LevelTexts(),
        objective=CTC(augment=masks),
        data=Utterances(source=data_dir, **fields),
        optimizer=AdamW(peak_lr=1e-3, schedule=Constant()),
        num_steps=1,
        batch_size=3,
        checkpoint=Checkpoints(every_steps=1),
        trackers=(),
    )


def _level(symbol: str | None) -> float:
    return 0.0 if symbol is None else (ALPHABET.index(symbol) + 1) / 16
