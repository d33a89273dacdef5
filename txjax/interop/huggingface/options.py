"""Reads the config.json of a folder key by key; a value that txjax can't represent is an error with its key."""

from __future__ import annotations

import logging
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from txjax.errors import UserError, near_misses
from txjax.nn.heads.head import class_count
from txjax.tree import read_json

log = logging.getLogger("txjax")
T = TypeVar("T")
FILE = "config.json"
MOST_SHOWN = 200  # characters of a value in an error
_MOST = 3.4e38  # of float32
# The keys of numbers of layers.
LAYERS = {
    *("num_hidden_layers", "n_layer", "n_layers", "num_layers", "depths", "depth", "decoder_layers", "encoder_layers"),
    *("decoder_num_hidden_layers", "num_decoder_layers"),
}

_HUB_NAME = re.compile(r"[\w.-]+(/[\w.-]+)?")  # of a model, with its owner but for a few old ones
# Their names of our activations; the first one is written.
_ACTIVATIONS = {
    "gelu": ("gelu", "gelu_python"),
    "gelu_tanh": ("gelu_new", "gelu_pytorch_tanh", "gelu_fast", "gelu_accurate"),
    "quick_gelu": ("quick_gelu",),
    "relu": ("relu",),
    "relu_squared": ("relu2",),
    "silu": ("silu", "swish"),
}


class Limits(NamedTuple):
    """The largest sizes that a config.json may have, so that no model is built that the file has no weights for.

    Attributes:
      layers: the most layers.
      others: the largest number of any other size.
    """

    layers: int
    others: int


class Options:
    """The values of a config.json. A missing key has the reference's default, which the caller passes.

    Args:
      file: its name in errors.
      prefix: what precedes the keys in errors: `vision_config.` of an object inside the file.
      limits: of sizes. If None, there are none.
    """

    def __init__(self, values: Mapping[str, Any], file: str = FILE, prefix: str = "", limits: Limits | None = None):
        self.values = dict(values)
        self.file = file
        self.prefix = prefix
        self.limits = limits

    def with_values(self, values: Mapping[str, Any]) -> Options:
        """The same file with these values."""
        return Options(values, self.file, self.prefix, self.limits)

    @staticmethod
    def read(directory: Path) -> Options:
        """Reads the config.json of a folder. Raises UserError if it is missing or can't be read."""
        path = directory / FILE
        if not path.is_file():
            raise missing_file(directory, FILE)
        return Options(read_json(path))

    def get(self, key: str, default: T) -> T:
        """The value, of the default's type; null means the default. Raises UserError for another type."""
        value = self.values.get(key)
        if value is None:
            return default
        accepted: Any = (int, float) if isinstance(default, float) else type(default)
        if not isinstance(value, accepted) or (isinstance(value, bool) and not isinstance(default, bool)):
            raise self.refuse(key, f"a value like {default!r}", value)
        if isinstance(default, float) and not abs(value) <= _MOST:
            raise self.refuse(key, "a finite number", value)
        if type(default) is int:
            self.check_limit(key, value)
        return type(default)(value)  # type: ignore[call-arg]

    def part(self, key: str) -> Options:
        """The options of an object inside the file; none if it is missing."""
        return Options(self.get(key, {}), self.file, f"{self.prefix}{key}.", self.limits)

    def size(self, key: str, default: int) -> int:
        """An integer of at least 1."""
        value = self.get(key, default)
        if value < 1:
            raise self.refuse(key, "at least 1", value)
        return value

    def check_limit(self, key: str, value: int) -> None:
        """Raises UserError for a size that is larger than the tensors allow."""
        if self.limits is None:
            return
        most = self.limits.layers if key in LAYERS else self.limits.others
        if value > most:
            raise self.refuse(key, f"at most {most}, for the tensors of this folder", value)

    def sides(self, key: str, default: int) -> tuple[int, int]:
        """Height and width, from one number for both or from two."""
        value = self.values.get(key, default)
        pair = (value, value) if isinstance(value, int) else tuple(value) if isinstance(value, list) else ()
        if len(pair) != 2 or not all(type(side) is int and side > 0 for side in pair):
            raise self.refuse(key, "a number of pixels, or two", value)
        self.check_limit(key, max(pair))
        return pair

    def require(self, **supported: Any) -> None:
        """Raises UserError for a key with another value than the supported one."""
        for key, only in supported.items():
            value = self.values.get(key, only)
            if value != only and not (value is None and not only):
                raise self.refuse(key, repr(only), value)

    def shared_rate(self, key: str, other: str, default: float) -> float:
        """A rate that has one field here and two keys there. Warns if the second differs, and ignores it."""
        rate = self.get(key, default)
        second = self.get(other, self.get(key, default))
        if rate != second:
            log.warning("%s: %s = %s replaces %s = %s: a model of txjax has one rate", FILE, key, rate, other, second)
        return rate

    def activation(self, key: str, default: str, others: Sequence[str] = ()) -> str:
        """Our name of an activation; `others` are supported too, and have the same name here and there."""
        theirs = self.get(key, default)
        activations = _ACTIVATIONS | {name: (name,) for name in others}
        for ours, names in activations.items():
            if theirs in names:
                return ours
        known = [name for names in activations.values() for name in names]
        raise self.refuse(key, "one of " + ", ".join(known), theirs, near_misses(theirs, known))

    def refuse(self, key: str, expected: str, got: Any, near: list[str] | None = None) -> UserError:
        """The error for a key."""
        shown = got if len(repr(got)) <= MOST_SHOWN else f"{repr(got)[:MOST_SHOWN]}..."
        hint = "txjax supports no other value"
        return UserError(f"{self.file}: {self.prefix}{key}", expected, shown, near or (), hint)


def missing_file(directory: Path, file: str) -> UserError:
    """The error for a folder that lacks a file; if it may be a name of the hub, with the command that downloads it."""
    hint = ""
    if not directory.exists() and _HUB_NAME.fullmatch(str(directory)):
        hint = f"`hf download {directory} --local-dir FOLDER` downloads a name of the hub; then give FOLDER"
    got = "none" if directory.exists() else "no such folder"
    return UserError(str(directory), f"a folder with {file}", got, hint=hint)


def their_activation(ours: str) -> str:
    """Their name of one of our activations."""
    return _ACTIVATIONS.get(ours, (ours,))[0]


def labels(classes: int | None) -> dict[str, Any]:
    """The entries of config.json that give the number of classes, with default names."""
    names = {str(i): f"LABEL_{i}" for i in range(class_count(classes))}
    return {"id2label": names, "label2id": {name: int(i) for i, name in names.items()}}
