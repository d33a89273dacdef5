"""What is shown of examples of audio: their features, CTC's paths through them, masks of training, and their sound."""

import dataclasses
import itertools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from txjax import backend
from txjax.decoding import align
from txjax.decoding.frame_times import FrameTimes, encoder_and_front_end
from txjax.errors import UserError
from txjax.nn.audio.log_mel import LogMel
from txjax.objectives import CTC, JointCTC, Objective
from txjax.objectives.base import example_keys
from txjax.report.inspection.attention_sequences import time_steps
from txjax.report.inspection.examples import Example, word
from txjax.report.wav import wav
from txjax.types import PyTree

BEST = "best path"
TRANSCRIPT = "transcript"


@dataclasses.dataclass(frozen=True)
class Span:
    """A symbol, and the seconds at which it begins and ends."""

    text: str
    start: float
    end: float


@dataclasses.dataclass(frozen=True)
class AudioView:
    """What is shown of an example.

    Attributes:
      features: those that are not padding, without their differences in time.
      frequencies: the middle of each bin's filter, in Hz; None if they aren't known.
      masked: the same with the masks of training; None without any.
      tokens: the encoder's tokens that aren't padding.
      times: how far apart frames are.
      paths: of CTC, by name: the likeliest class of each frame, and the forced alignment of the transcript. {} of
        other models.
      recording: a WAV file; None without the waveform.
    """

    features: Float[np.ndarray, "F M"]
    frequencies: Float[np.ndarray, "N"] | None
    masked: Float[np.ndarray, "F M"] | None
    tokens: int
    times: FrameTimes
    paths: Mapping[str, Sequence[Span]]
    recording: bytes | None

    @property
    def seconds(self) -> float:
        """Their duration."""
        return len(self.features) * self.times.features

    @property
    def end(self) -> float:
        """When the last frame or token ends: the last token may be of fewer frames."""
        return max(self.seconds, self.tokens * (self.times.tokens or 0.0))


def audio_views(
    model: Any, variables: PyTree, objective: Objective, examples: Sequence[Example], key: jax.Array
) -> tuple[list[AudioView], list[str]]:
    """The view of each example, and lines about what is left out; no view if they are not of audio.

    Args:
      key: of a step, for the masks that it draws.
    """
    if not examples or "features_length" not in examples[0].inputs or examples[0].rate is None:
        return [], []
    try:
        times = FrameTimes.of(model, examples[0].rate)
    except UserError as error:
        return [], [f"no spectrogram: {error}"]
    frequencies = bin_frequencies(model)
    bins = slice(None if frequencies is None else len(frequencies))
    find_paths = _path_program(model, objective) if isinstance(objective, CTC | JointCTC) and times.tokens else None
    views = []
    for example in examples:
        length = max(int(example.inputs["features_length"][0]), 1)  # of a recording that is left out, one of padding
        masked = masked_features(objective, example, key)
        view = AudioView(
            features=example.inputs["features"][0, :length, bins],
            frequencies=frequencies,
            masked=None if masked is None else masked[0, :length, bins],
            tokens=int(time_steps(model, length)),
            times=times,
            paths={} if find_paths is None else _spans(find_paths, variables, example, times.tokens or 0.0),
            recording=_recording(example),
        )
        views.append(view)
    return views, [
        f"{example.title}: its transcript doesn't fit its frames" for example in _without_path(examples, views)
    ]


def _without_path(examples: Sequence[Example], views: Sequence[AudioView]) -> list[Example]:
    """The examples whose transcripts have no path."""
    return [
        example
        for example, view in zip(examples, views, strict=True)
        if view.paths.get(TRANSCRIPT) == [] and example.batch["transcript_length"][0]
    ]


def masked_features(objective: Objective, example: Example, key: jax.Array) -> Float[np.ndarray, "1 T M"] | None:
    """The features as training with a step's key masks those of an example of this number; None without masks."""
    augment = getattr(objective, "augment", None)
    if augment is None or "id" not in example.batch:
        return None
    keys = example_keys(key, {"id": jnp.asarray(example.batch["id"])})
    features, length = (jnp.asarray(example.inputs[name]) for name in ("features", "features_length"))
    return np.asarray(augment(features, length, keys))


def bin_frequencies(model: Any) -> Float[np.ndarray, "N"] | None:
    """The frequency at which each mel filter of the model's front end is highest, in Hz; None without filters."""
    _, front_end = encoder_and_front_end(model)
    front_end = getattr(front_end, "front_end", front_end)  # of `Differences`
    if not isinstance(front_end, LogMel):
        return None
    return front_end.mel_matrix().argmax(0) * front_end.rate / front_end.fft


def _recording(example: Example) -> bytes | None:
    if "audio" not in example.batch or example.rate is None:
        return None
    return wav(example.batch["audio"][0, : int(example.batch["audio_length"][0])], example.rate)


PathProgram = Callable[..., tuple[Int[Array, "1 F"], Int[Array, "1 F"], Int[Array, ""], int]]


def _path_program(model: Any, objective: CTC | JointCTC) -> PathProgram:
    """A program that gives the best path, that of the transcript, the number of frames, and the class of the blank."""

    def paths(variables: PyTree, inputs: dict[str, Any], symbols: jax.Array, lengths: jax.Array) -> tuple[Any, ...]:
        logits, frames = objective.frame_logits(model, variables, {"id": symbols[:, 0], **inputs})
        aligned = align(logits, frames, symbols, lengths, objective.blank)
        return logits.argmax(-1), aligned.path, frames[0], objective.blank % logits.shape[-1]

    return backend.jit(paths)


def _spans(program: PathProgram, variables: PyTree, example: Example, seconds: float) -> dict[str, list[Span]]:
    """The symbols of CTC's paths by name. `seconds`: from one frame to the next."""
    symbols = example.batch.get("transcript", np.zeros((1, 1), np.int32))
    lengths = example.batch.get("transcript_length", np.zeros(1, np.int32))
    best, aligned, frames, blank = jax.device_get(program(variables, example.inputs, symbols, lengths))
    by_name = {TRANSCRIPT: aligned[0]} if "transcript" in example.batch else {}
    tokenizer = example.tokenizers.get("tokens")
    return {
        name: [
            Span(str(symbol) if tokenizer is None else word(tokenizer, symbol), start * seconds, end * seconds)
            for symbol, start, end in path_spans(path[:frames])
            if symbol != blank
        ]
        for name, path in (by_name | {BEST: best[0]}).items()
    }


def path_spans(path: Int[np.ndarray, "T"]) -> list[tuple[int, int, int]]:
    """The runs of equal classes: the class, its first frame, and the one after its last."""
    spans = []
    start = 0
    for symbol, frames in itertools.groupby(path.tolist()):
        end = start + len(list(frames))
        spans.append((symbol, start, end))
        start = end
    return spans
