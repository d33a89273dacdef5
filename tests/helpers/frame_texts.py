"""Texts of frames by enumeration of all paths, a model whose logits are its features, and a data set for it."""

import dataclasses
import itertools
from typing import Any

import flax.linen as nn
import jax
import numpy as np

from txjax.data import Dataset
from txjax.data.tokenizers.tokenizer import Characters
from txjax.types import spec

Text = tuple[int, ...]
SCALARS = {"id": "int32", "transcript_length": "int32", "weights": "float32"}


def log_softmax(logits: np.ndarray) -> np.ndarray:
    """In float64."""
    wide = np.asarray(logits, np.float64)
    return wide - np.logaddexp.reduce(wide, axis=-1, keepdims=True)


def text_of_path(path: Any, blank: int) -> Text:
    """The symbols of a path: equal neighbours count once, blanks are removed."""
    return tuple(symbol for symbol, _ in itertools.groupby(path) if symbol != blank)


def enumerate_texts(logits: np.ndarray, blank: int) -> dict[Text, float]:
    """The log-probability of every text, from logits [F V]: the sum over all of its paths."""
    log_probs, totals = log_softmax(logits), dict[Text, float]()
    for path in itertools.product(range(logits.shape[1]), repeat=len(logits)):
        text, score = text_of_path(path, blank), sum(log_probs[frame, c] for frame, c in enumerate(path))
        totals[text] = float(np.logaddexp(totals.get(text, -np.inf), score))
    return totals


def pad_texts(texts: Any, size: int) -> tuple[np.ndarray, np.ndarray]:
    """Texts as arrays: symbols int32 [B size], lengths int32 [B]."""
    symbols = np.stack([np.pad(np.asarray(text, np.int32), (0, size - len(text))) for text in texts])
    return symbols, np.array([len(text) for text in texts], np.int32)


class Frames(nn.Module):
    """Logits are the features times a number; frames are as many as those of the features."""

    @nn.compact
    def __call__(self, features: jax.Array, features_length: jax.Array, train: bool = False) -> jax.Array:
        return self.param("scale", nn.initializers.ones, ()) * features

    @nn.nowrap
    def output_length(self, features_length: jax.Array) -> jax.Array:
        return features_length


def nest(array: np.ndarray) -> Any:
    """An array as tuples of numbers, which can be compared."""
    return tuple(map(nest, array)) if array.ndim else float(array)


@dataclasses.dataclass
class FrameTexts(Dataset):
    """Features that are logits, and the texts that they should give.

    Attributes:
      features: [N F V], as tuples.
      frames: the number of frames of each.
      texts: the transcripts.
    """

    features: tuple[Any, ...] = ()
    frames: tuple[int, ...] = ()
    texts: tuple[str, ...] = ()
    length: int = 12
    tokenizer: Characters = dataclasses.field(default_factory=lambda: Characters(" ab"))
    normalization: Any = None
    fingerprint = "frame texts"

    def spec(self) -> dict[str, jax.ShapeDtypeStruct]:
        arrays = {
            "features": spec(np.shape(self.features)[1:], "float32"),
            "transcript": spec((self.length,), "int32"),
        }
        scalars = SCALARS | {"features_length": "int32"}
        return {key: spec((), dtype) for key, dtype in scalars.items()} | arrays

    def vocab(self) -> int:
        return self.tokenizer.vocab()

    def check(self) -> None:
        pass

    def open(self) -> "FrameTexts":
        return self

    def transcripts(self) -> tuple[str, ...]:
        return self.texts

    def __len__(self) -> int:
        return len(self.texts)

    def example(self, index: int, epoch: int, rng: np.random.Generator) -> dict[str, np.ndarray]:
        features = np.array(self.features[index], np.float32)
        return self.transcript(index) | {"features": features, "features_length": np.int32(self.frames[index])}

    def transcript(self, index: int) -> dict[str, Any]:
        """The keys of an example that every model's data have."""
        symbols = self.tokenizer.encode(self.texts[index]).astype(np.int32)
        return {
            "transcript": np.pad(symbols, (0, self.length - len(symbols))),
            "transcript_length": np.int32(len(symbols)),
            "weights": np.float32(1),
        }


@dataclasses.dataclass
class SourceTexts(FrameTexts):
    """Tokens of `outputs` as sources in the place of features, and the transcripts. The tokenizer has [END]."""

    outputs: tuple[str, ...] = ()

    def spec(self) -> dict[str, jax.ShapeDtypeStruct]:
        sources = {key: spec((self.length,), "int32") for key in ("source_tokens", "source_segments")}
        scalars = {key: spec((), dtype) for key, dtype in SCALARS.items()}
        return scalars | {"transcript": spec((self.length,), "int32")} | sources

    def example(self, index: int, epoch: int, rng: np.random.Generator) -> dict[str, np.ndarray]:
        ids = [*self.tokenizer.encode(self.outputs[index]), self.tokenizer.special("[END]")]
        source = np.pad(np.array(ids, np.int32), (0, self.length - len(ids)))
        return self.transcript(index) | {"source_tokens": source, "source_segments": np.ones_like(source)}
