"""What a family of models states in the `card.py` of its folder; tests and tables of the docs read it."""

import dataclasses
import importlib
from collections.abc import Callable, Mapping
from pathlib import Path

import jax

from txjax.models.model import Model
from txjax.nn import Classes, Head, Heads, MeanTokens, StartEnd, Tied, TokenClasses

VOCAB = 13  # tokens of the contracts' texts, whose images have 4 x 4 pixels of one channel
CLASSES = 3  # of the contracts' labels

# Objectives of any encoder with a head, and the heads that they need; those of tokens need a text.
EXAMPLE_TASKS: dict[str, Head | None] = {
    "Classification": Classes(CLASSES, MeanTokens()),
    "Regression": Classes(1, MeanTokens()),
}
TOKEN_TASKS: dict[str, Head | None] = EXAMPLE_TASKS | {
    "MultipleChoice": Classes(1, MeanTokens()),
    "Spans": StartEnd(),
    "TokenClassification": TokenClasses(VOCAB),
    "WithNextToken": Heads({"task": Classes(CLASSES, MeanTokens()), "text": Tied()}),
}


@dataclasses.dataclass(frozen=True)
class Size:
    """A published size.

    Attributes:
      parameters: their exact number.
      remark: what distinguishes the size.
      inputs: what it is counted with, where that is not what its preset has.
    """

    parameters: int
    remark: str = ""
    inputs: Mapping[str, jax.ShapeDtypeStruct] = dataclasses.field(default_factory=dict)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Preset:
    """A constructor of published sizes.

    Attributes:
      build: the function, which is called with a size, or without one.
      paper: where the sizes are from.
      remark: what is common to them.
      sizes: by their names; the only one of a function without an argument is "".
      trunk: the part of the model whose width, depth and heads are stated. If "", the model.
      inputs: what the model is counted with besides 8 tokens, or instead of an image of 224 x 224 pixels.
      reference: the class of Hugging Face's transformers with the same parameters. If "", there is none.
      slow: the sizes whose trace takes more than a few seconds.
    """

    build: Callable[..., Model]
    paper: str
    sizes: Mapping[str, Size]
    remark: str = ""
    trunk: str = ""
    inputs: Mapping[str, jax.ShapeDtypeStruct] = dataclasses.field(default_factory=dict)
    reference: str = ""
    slow: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        return self.build.__name__

    def model(self, size: str) -> Model:
        """The model of a size."""
        return self.build(size) if size else self.build()


@dataclasses.dataclass(frozen=True, kw_only=True)
class Example:
    """A class of the family's models.

    Attributes:
      model: a tiny one, of `VOCAB` tokens or images of 4 x 4 pixels of one channel.
      objectives: those that suit it, by name, with the heads that they need. None is the model's own head.
      returns: what a call returns.
      config: FILE or FILE:VARIANT of configs/ that trains one.
      limits: what isn't for it, and why.
    """

    model: Model
    objectives: Mapping[str, Head | None]
    returns: str
    config: str
    limits: str = ""

    @property
    def name(self) -> str:
        return type(self.model).__name__


@dataclasses.dataclass(frozen=True, kw_only=True)
class System:
    """The system of a paper, with its four marks.

    Attributes:
      name: the name in the paper.
      config: FILE or FILE:VARIANT of configs/ that trains it on real data.
      score: what it reached.
      presets: the constructors of its sizes.
      equal_to: the reference that the outputs are compared with, as a link.
      compiled: the full size and the TPU slice that it was compiled for.
    """

    name: str
    config: str
    score: str
    presets: tuple[Callable[..., Model], ...]
    equal_to: str
    compiled: str


@dataclasses.dataclass(frozen=True, kw_only=True)
class Card:
    """A family: a folder of text/, vision/ or multimodal/.

    Attributes:
      title: the family in a few words.
      examples: its classes of models.
      presets: its published sizes.
      systems: the systems of papers that it has.
    """

    title: str
    examples: tuple[Example, ...] = ()
    presets: tuple[Preset, ...] = ()
    systems: tuple[System, ...] = ()


def cards() -> dict[str, Card]:
    """The cards of all families by folder, such as "text/bert": whatever folder has a `card.py`."""
    root = Path(__file__).parent
    folders = sorted(file.parent.relative_to(root) for file in root.glob("*/*/card.py"))
    modules = {folder.as_posix(): ".".join(("txjax.models", *folder.parts, "card")) for folder in folders}
    return {folder: importlib.import_module(module).CARD for folder, module in modules.items()}
