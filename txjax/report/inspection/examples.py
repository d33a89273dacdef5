"""Examples that are inspected: the model's arguments, and how they are shown."""

import dataclasses
import itertools
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float, Int

from txjax import backend
from txjax.data import Conversations, Dataset, Limits, Tokenizer, Utterances, eval_batches
from txjax.decoding import Beginnings, Sampling, generator_for, prompts_for, until
from txjax.decoding.spoken_prompts import read_recordings
from txjax.errors import UserError, near_misses
from txjax.experiment import Experiment
from txjax.objectives import MultiTask, Objective, model_inputs
from txjax.report.inspection.attention_sequences import SEGMENTS, TEXTS
from txjax.report.inspection.style import Area
from txjax.terminal_escape import visible
from txjax.tree import walk
from txjax.types import PyTree


@dataclasses.dataclass(frozen=True)
class Example:
    """One example.

    Attributes:
      title: its name in pictures.
      inputs: the model's arguments, numpy arrays of one row (several of a multiple choice).
      image: its pixels from 0 to 1, of one or three channels; for a model of patches of features, these, frequencies x
        times, and black is the least of them. None without either.
      tokenizers: of the texts, by argument; None where there is none.
      batch: what the data set has of it, or what a prompt gives, one row.
      rate: samples a second of its `audio`.
      area: the part of the picture that the grid of the model's patches covers. If None, all.
      patches: the indices of the tokens that stand for the patches of the picture; () where none do.
    """

    title: str
    inputs: dict[str, np.ndarray]
    image: Float[np.ndarray, "H W C"] | None
    tokenizers: Mapping[str, Tokenizer | None]
    batch: Mapping[str, np.ndarray] = dataclasses.field(default_factory=dict)
    rate: int | None = None
    area: Area | None = None
    patches: Int[np.ndarray, "N"] = dataclasses.field(default_factory=lambda: np.zeros(0, np.int64))

    def token_indices(self, name: str, row: int, most: int) -> Int[np.ndarray, "N"]:
        """The indices of the first tokens of a text that are neither padding nor patches of an image."""
        segments = self.inputs.get(SEGMENTS[name])
        length = self.inputs[name].shape[1]
        if name == "tokens" and "transcript_length" in self.batch:
            length = 1 + max(np.flatnonzero(self.batch["weights"][0]), default=0)
        indices = np.arange(length) if segments is None else np.flatnonzero(segments[row] > 0)
        return (np.setdiff1d(indices, self.patches) if name == "tokens" else indices)[:most]

    def words(self, name: str, row: int, most: int) -> list[str]:
        """These tokens as texts; control characters, which a text may have, are escaped."""
        return self._words(name, self.inputs[name][row][self.token_indices(name, row, most)])

    def written(self) -> tuple[Int[np.ndarray, "N"], list[str]]:
        """The indices at which a decoder writes a token, and these tokens: the targets, or what follows a prompt."""
        if "targets" in self.batch:
            indices = np.flatnonzero(self.batch["weights"][0] > 0)
            return indices, self._words("tokens", self.batch["targets"][0][indices])
        tokens = self.inputs["tokens"][0]
        opening = self.batch["tokens"].shape[1]
        return np.arange(opening - 1, len(tokens) - 1), self._words("tokens", tokens[opening:])

    def _words(self, name: str, ids: Int[np.ndarray, "N"]) -> list[str]:
        tokenizer = self.tokenizers.get(name)
        return [str(int(i)) if tokenizer is None else word(tokenizer, int(i)) for i in ids]


def word(tokenizer: Tokenizer, number: int) -> str:
    """A token as a text of its own, spaces visible; `<226>` if it is a part of a character, or has no text."""
    text = tokenizer.decode([number])
    if text in ("", "\ufffd"):
        return f"<{number}>"
    return visible(text).replace(" ", "\u2423")


def part_named(experiment: Experiment, name: str | None) -> tuple[Any, Objective, Dataset, str]:
    """The model, the objective and the data of an evaluation of this name, of the first one if None, or of "train".

    Raises:
      UserError: there is no such evaluation, or the run trains on several tasks and "train" is none of them.
    """
    names = list(experiment.evals)
    name = name or (names[0] if names else "train")
    if name in experiment.evals:
        evaluator = experiment.evals[name]
        model, objective, _ = evaluator.part(experiment.model, experiment.objective, experiment.data)
        return model, objective, evaluator.data, f"config.evals.{name}.data"
    if name != "train" or isinstance(experiment.objective, MultiTask):
        known = names if isinstance(experiment.objective, MultiTask) else [*names, "train"]
        raise UserError("--data", "one of " + ", ".join(known), name, near_misses(name, known))
    return experiment.model, experiment.objective, experiment.data, "config.data"


def examples_of(model: Any, objective: Objective, data: Dataset, field: str, count: int) -> Iterator[Example]:
    """The first examples of a data set, as an evaluation reads them."""
    limits = Limits.of(field, model, objective.required_keys)
    names = data.class_names()
    tokenizers = tokenizers_of(data)
    batches = eval_batches(data.open(), batch_size=1, limits=limits, threads=1, prefetch=1)
    try:
        for batch in itertools.islice(batches, count):
            title = f"example {int(batch['id'].ravel()[0])}"
            label = int(batch["label"].ravel()[0]) if "label" in batch else -1
            if label >= 0:
                title += f" (label {names[label] if names else label})"
            arguments = objective.inputs(model, {name: jnp.asarray(x) for name, x in batch.items()})
            inputs = {name: np.asarray(x) for name, x in arguments.items()}
            image = _shown_pixels(inputs["image"][0], data) if "image" in inputs else shown_features(model, inputs)
            area = _area(model, inputs)
            patches = patch_indices(model, inputs)
            yield Example(title, inputs, image, tokenizers, batch, getattr(data, "rate", None), area, patches)
    finally:
        batches.close()


def examples_from(texts: Sequence[str], model: Any, variables: PyTree, data: Dataset) -> Iterator[Example]:
    """Texts as examples: of a decoder, the text; of an encoder-decoder, a source, whose target is the model's own
    likeliest continuation; of an encoder, the text with the special tokens that its tokenizer puts around one.

    Of a model of speech they are paths of recordings.

    Raises:
      UserError: the data have no texts of one of these kinds, or a recording is unusable.
    """
    tokenizers = tokenizers_of(data)
    tokenizer = tokenizers["tokens"]
    if isinstance(data, Conversations):
        raise UserError("--input", "--data, since a question of a conversation has its image there", list(texts))
    for text in texts:
        if tokenizer is None:
            raise UserError("--input", "a run on texts", type(data).__name__)
        batch: Mapping[str, Any] = {}
        if isinstance(data, Utterances) and data.end() is None:
            batch = read_recordings([text], data, "--input")
            inputs = {name: np.asarray(x) for name, x in model_inputs(model, batch).items()}
        elif "source_tokens" in data.spec() or "targets" in data.spec():
            form = prompts_for(data, "--input")
            batch = form.inputs([text], "--input")
            inputs = {name: np.asarray(x) for name, x in model_inputs(model, batch).items()}
            if not isinstance(form, Beginnings):
                inputs["tokens"] = _translate(model, variables, inputs, data, form.end)
        else:
            ids = tokenizer.frame(1).row(tokenizer.parse_batch([text])).ids[None]
            inputs = {"tokens": ids, "segments": np.ones_like(ids)}
        shown = visible(text)
        title = shown if len(shown) <= 40 else f"{shown[:39]}…"
        yield Example(title, inputs, None, tokenizers, batch, getattr(data, "rate", None))


def patch_indices(model: Any, inputs: Mapping[str, np.ndarray]) -> Int[np.ndarray, "N"]:
    """The indices of the tokens of the first text that stand for patches, of a model that has such a token."""
    image_token = getattr(model, "image_token", None)
    if image_token is None or "tokens" not in inputs:
        return np.zeros(0, np.int64)
    segments = inputs.get("segments", np.ones_like(inputs["tokens"]))
    return np.flatnonzero((inputs["tokens"][0] == image_token) & (segments[0] > 0))


def _translate(
    model: Any, variables: PyTree, inputs: dict[str, np.ndarray], data: Dataset, end: tuple[int, ...]
) -> Int[np.ndarray, "1 L"]:
    """The start token and the greedy continuation, up to its end token."""
    (window,) = data.spec()["tokens"].shape
    generator = generator_for(model, variables, inputs, window)
    search = Sampling(temperature=0.0, end=end)
    program = backend.jit(
        lambda v, prompt: search(generator, v, prompt, window - prompt["tokens"].shape[1], jax.random.key(0))
    )
    written = until(np.asarray(program(variables, {k: jnp.asarray(x) for k, x in inputs.items()}))[0], end)
    return np.concatenate([inputs["tokens"], written[None].astype(np.int32)], axis=1)


def tokenizers_of(data: Dataset) -> dict[str, Tokenizer | None]:
    """The tokenizers of a data set's texts, by argument of the model: of the first of several data sets."""
    for _, node in walk(data, "data"):
        tokenizer = getattr(node, "tokenizer", None)
        if isinstance(tokenizer, Tokenizer):
            source = getattr(node, "source_tokenizer", None)
            return {"tokens": tokenizer, "source_tokens": source or tokenizer}
    return dict.fromkeys(TEXTS)


def _shown_pixels(image: Float[np.ndarray, "H W C"], data: Dataset) -> Float[np.ndarray, "H W c"]:
    """The pixels as they were before normalization; of other than one or three channels, the first."""
    mean, std = (np.asarray(getattr(data, name, default), np.float32) for name, default in (("mean", 0), ("std", 1)))
    pixels = np.clip(image * std + mean, 0, 1)
    return pixels if pixels.shape[2] in (1, 3) else pixels[:, :, :1]


def shown_features(model: Any, inputs: Mapping[str, np.ndarray]) -> Float[np.ndarray, "C T 1"] | None:
    """The features of an example of audio that the model reads, as a picture, if it has patches of them."""
    if "features" not in inputs or not hasattr(model, "grid"):
        return None
    reads_all = getattr(model, "reads_padding", False) or "features_length" not in inputs
    spectrogram = inputs["features"][0][: None if reads_all else int(inputs["features_length"][0])].T
    low = float(spectrogram.min())
    high = float(spectrogram.max())
    return ((spectrogram - low) / max(high - low, 1e-9))[..., None].astype(np.float32)


def _area(model: Any, inputs: Mapping[str, np.ndarray]) -> Area | None:
    """The bins and frames of features that the grid of a model's patches covers, if the model says it."""
    if "features" not in inputs or not hasattr(model, "grid_area"):
        return None
    _, frames, bins = inputs["features"].shape
    return model.grid_area(bins, frames)  # type: ignore[no-any-return]


def place_of(query: str | None, data: Dataset) -> tuple[float, float] | None:
    """The place of a pixel `ROW,COLUMN` as fractions of the height and the width of the data's images.

    Raises:
      UserError: it is no pixel of them, or the data have no images.
    """
    if query is None:
        return None
    image = data.spec().get("image")
    if image is None:
        raise UserError("--query", "a run on images", type(data).__name__)
    sides = image.shape[:2]
    parts = query.split(",")
    if len(parts) != 2 or not all(
        part.isdecimal() and int(part) < side for part, side in zip(parts, sides, strict=True)
    ):
        raise UserError("--query", f"ROW,COLUMN of a pixel, below {sides[0]},{sides[1]}", query)
    return (int(parts[0]) + 0.5) / sides[0], (int(parts[1]) + 0.5) / sides[1]
