"""Which sequences each attention of a model reads, for one input."""

import dataclasses
import itertools
import math
from collections.abc import Iterator, Mapping
from typing import Any

import jax
import numpy as np
from jaxtyping import Int

from txjax import backend
from txjax.models.attended_sequences import Sequences, StatesSequences
from txjax.nn import Grid
from txjax.report.inspection.attention_maps import sown_maps
from txjax.report.inspection.attention_measures import grid_of
from txjax.types import PyTree

TEXTS = ("tokens", "source_tokens")  # arguments of models that are texts
SEGMENTS = {"tokens": "segments", "source_tokens": "source_segments", "regions": "region_segments"}  # 0 is padding
NUMBERED = {"queries": "query", "regions": "region"}  # sequences whose elements have numbers, and one of them


@dataclasses.dataclass(frozen=True)
class Sequence:
    """What an attention reads.

    Attributes:
      name: the argument of the model that it comes from: `tokens`, `source_tokens`, `image`, `regions`, `features`; of
        learned queries `queries`; "" if not known.
      length: its tokens.
      grid: their order, of an image or of a spectrogram's patches. If None, they are a text or steps in time.
      first: how many tokens of other sequences the attention reads before them.
    """

    name: str
    length: int
    grid: Grid | None = None
    first: int = 0

    @property
    def is_text(self) -> bool:
        return self.name in TEXTS

    @property
    def is_labelled(self) -> bool:
        """Whether pictures have a label for each of its tokens: a word or a number."""
        return self.is_text or self.name in NUMBERED

    @property
    def one(self) -> str:
        """What pictures call one of its labelled tokens."""
        return NUMBERED.get(self.name, "word")


@dataclasses.dataclass(frozen=True)
class Attended:
    """One attention of a model, in all layers; of one that reads several sequences, the part between two of them.

    Attributes:
      path: of its weights.
      queries, keys: the sequences.
      windows: whether it is attention in windows of a grid.
    """

    path: str
    layers: int
    heads: int
    queries: Sequence
    keys: Sequence
    windows: bool = False

    @property
    def between_texts(self) -> bool:
        """Whether queries and keys are tokens of texts."""
        return self.queries.is_text and self.keys.is_text

    @property
    def between_labelled(self) -> bool:
        """Whether queries and keys have labels, and some are tokens of a text."""
        labelled = self.queries.is_labelled and self.keys.is_labelled
        return labelled and (self.queries.is_text or self.keys.is_text)

    @property
    def labelled_over_image(self) -> bool:
        """Whether queries have labels, and keys are patches of an image."""
        return self.queries.is_labelled and self.keys.grid is not None

    @property
    def image_over_labelled(self) -> bool:
        """Whether queries are patches of an image, and keys have labels."""
        return self.queries.grid is not None and self.keys.is_labelled

    @property
    def over_time(self) -> bool:
        """Whether keys are an encoder's tokens of audio, one after the other."""
        return self.keys.name == "features" and self.keys.grid is None


def attentions_of_call(model: Any, variables: PyTree, inputs: Mapping[str, Any]) -> dict[str, Attended]:
    """The attentions that a call of the model has, by path. Of their weights none is computed.

    Of an attention between several sequences each part has a path of its own, which ends in their names.
    """
    shapes = jax.eval_shape(lambda v, x: sown_maps(model, v, x), variables, dict(inputs))
    windows: dict[str, jax.Array] = {}
    if any(maps.windows is not None for maps in shapes.values()):
        numbers = backend.jit(lambda v, x: {path: maps.windows for path, maps in sown_maps(model, v, x).items()})
        windows = jax.device_get(numbers(variables, dict(inputs)))
    sizes = _InputSizes.of(model, inputs)
    attentions: dict[str, Attended] = {}
    for path, maps in shapes.items():
        parts = model.sequences(path, inputs) if isinstance(model, StatesSequences) else None
        attentions |= sizes.attentions(path, maps.weights.shape, windows.get(path), parts)
    return attentions


@dataclasses.dataclass(frozen=True)
class _InputSizes:
    """How many tokens, and in which order, the inputs of a call have.

    Attributes:
      lengths: tokens of each text, and of features whose tokens are steps in time, by argument.
      spectrogram: the order of the patches of features.
      image: height and width.
    """

    lengths: Mapping[str, int]
    spectrogram: Grid | None
    image: tuple[int, int] | None

    @classmethod
    def of(cls, model: Any, inputs: Mapping[str, Any]) -> "_InputSizes":
        lengths = {name: inputs[name].shape[1] for name in TEXTS if name in inputs}
        grid = _spectrogram_grid(model, inputs)
        if "features" in inputs and grid is None:
            lengths["features"] = time_steps(model, inputs["features"].shape[1])
        return cls(lengths, grid, inputs["image"].shape[1:3] if "image" in inputs else None)

    def attentions(
        self, path: str, shape: tuple[int, ...], windows: Any, parts: tuple[Sequences, Sequences] | None
    ) -> dict[str, Attended]:
        """The attentions of a path, by the shape of its weights.

        Args:
          parts: as of `StatesSequences.sequences`.
        """
        layers, _, heads, length, source = shape
        if windows is not None:
            assert self.image is not None
            grid = _grid_of_windows(windows, *self.image)
            both = Sequence("image", grid.rows * grid.columns, grid)
            return {path: Attended(path, layers, heads, both, both, windows=True)}
        if parts is None:
            pair = self._likely_pair(path, length, source)
            return {path: Attended(path, layers, heads, *pair)}
        of_queries, of_keys = (list(self._in_order(*side)) for side in zip(parts, (length, source), strict=True))
        attentions = {}
        for queries, keys in itertools.product(of_queries, of_keys):
            sides = (queries, of_queries), (keys, of_keys)
            names = [sequence.name for sequence, side in sides if len(side) > 1]
            attentions["/".join([path, *names])] = Attended(path, layers, heads, queries, keys)
        return attentions

    def _in_order(self, parts: Sequences, length: int) -> Iterator[Sequence]:
        """The sequences that are `length` tokens together, as `StatesSequences.sequences` states them."""
        rest = length - sum(size for size in parts.values() if size is not None)
        first = 0
        for name, size in parts.items():
            size = rest if size is None else size
            if name:
                grid = grid_of(size, *self.image) if name == "image" and self.image else None
                yield Sequence(name, size, grid, first)
            first += size

    def _likely_pair(self, path: str, length: int, source: int) -> tuple[Sequence, Sequence]:
        """The queries and the keys of so many tokens."""
        first, *_, last = path.split("/")
        sources = [name for name in ("source_tokens", "features") if name in self.lengths]
        pair = bool(sources) and "tokens" in self.lengths
        queries = self._likely(length, sources if pair and first == "encoder" else ["tokens"])
        return queries, self._likely(source, sources if pair and last in ("cross", "decoder") else [queries.name])

    def _likely(self, length: int, likely: list[str]) -> Sequence:
        """The input that has so many tokens; of several the likely one."""
        for name in dict.fromkeys((*likely, *self.lengths)):
            if self.lengths.get(name) == length:
                return Sequence(name, length)
        if self.spectrogram is not None and (prefix := length - self.spectrogram.rows * self.spectrogram.columns) >= 0:
            return Sequence("features", length, self.spectrogram._replace(prefix=prefix))
        grid = None if self.image is None else grid_of(length, *self.image)
        return Sequence("image" if grid else "", length, grid)


def time_steps(model: Any, frames: Int[Any, "..."] | int) -> Any:
    """How many tokens an encoder of audio, the model's or its own, makes of so many frames; as many without one."""
    for encoder in (model, getattr(model, "encoder", None)):
        if callable(length := getattr(encoder, "output_length", None)):
            return length(frames)
    return frames


def _spectrogram_grid(model: Any, inputs: Mapping[str, Any]) -> Grid | None:
    """The order of the patches of features, for a model that says it."""
    grid = getattr(model, "grid", None)
    if "features" not in inputs or not callable(grid):
        return None
    _, frames, bins = inputs["features"].shape
    return grid(bins, frames)  # type: ignore[no-any-return]


def _grid_of_windows(windows: Int[np.ndarray, "layers W S"], height: int, width: int) -> Grid:
    """The grid whose windows they are: the second row of a window is one row of the grid further."""
    tokens = int(windows.max()) + 1
    side = math.isqrt(windows.shape[2])
    if side == 1:
        return grid_of(tokens, height, width, most=0) or Grid(1, tokens)
    columns = int(windows[0, 0, side] - windows[0, 0, 0])
    return Grid(tokens // columns, columns)
