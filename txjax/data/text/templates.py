"""Texts made of a record's features by a format string, such as "translate English to German: {en}"."""

import string
from collections.abc import Mapping
from typing import Any, Protocol

import numpy as np

from txjax.data.tfds import records
from txjax.data.tokenizers.tokenizer import as_string
from txjax.errors import UserError

NUMBERS = ("Scalar", "Tensor")


class RecordText(Protocol):
    """A text that is made of a record's features.

    Attributes:
      names: the features that are read.
    """

    names: tuple[str, ...]

    def __call__(self, record: dict[str, Any]) -> str:
        """The text of a record."""
        ...

    @property
    def feature(self) -> str:
        """What the text is made by, for the key of a cache."""
        ...


class Template:
    """A format string over a data set's features: texts as they are, classes by their names, numbers by their format.

    Args:
      text: the format string; `{{` is a brace.
      features: the data set's features, of TFDS.
      field: the config field that has the text, for messages.

    Raises:
      UserError: the string is malformed, has no feature, one that the set doesn't have, or a format that doesn't suit.
    """

    def __init__(self, text: str, features: Any, field: str):
        self.text = text
        try:
            parts = [(name, form) for _, name, form, _ in string.Formatter().parse(text) if name is not None]
        except ValueError as error:
            raise UserError(field, "a format string such as '{text}'", text, hint=str(error)) from error
        if not parts:
            hint = f"'{{{text}}}' is that feature" if text in features else ""
            raise UserError(field, "a format string with a feature in braces, such as '{text}'", text, hint=hint)
        for name, form in parts:
            feature = records.check_feature(field, name, features, ("Text", "ClassLabel", *NUMBERS))
            _check_form(field, name, feature, form or "")
        self.names = tuple(dict.fromkeys(name for name, _ in parts))
        self._classes = {n: features[n].names for n in self.names if type(features[n]).__name__ == "ClassLabel"}

    def __call__(self, record: dict[str, Any]) -> str:
        """The text of a record; empty if all of its features are. A class that is not known (-1) is empty."""
        return "" if all(self._feature_text(name, record[name]) == "" for name in self.names) else self.fill(record)

    def fill(self, record: dict[str, Any], texts: Mapping[str, str] | None = None) -> str:
        """The text of a record, with other `texts` for some of its features; also if all of these are empty."""
        texts = texts or {}
        values = {n: texts[n] if n in texts else self._feature_text(n, record[n]) for n in self.names}
        return self.text.format(**values)

    def words_before(self, name: str) -> str:
        """The words of the format string between a feature and the one before it."""
        return next(words for words, field, _, _ in string.Formatter().parse(self.text) if field == name)

    def _feature_text(self, name: str, value: Any) -> Any:
        if name in self._classes:
            return self._classes[name][int(value)] if value >= 0 else ""
        return as_string(value) if isinstance(value, bytes | str) else value

    @property
    def feature(self) -> str:
        """The name of the feature that the text consists of; of a text with more in it, the format string."""
        return self.names[0] if self.text == f"{{{self.names[0]}}}" else self.text


def _check_form(field: str, name: str, feature: Any, form: str) -> None:
    """Raises UserError if values of a feature can't be written in a format, such as `.1f`."""
    if type(feature).__name__ not in NUMBERS:
        if form:
            raise UserError(field, f"{{{name}}} without a format, since it is no number", f"{{{name}:{form}}}")
        return
    if feature.shape != ():
        raise UserError(field, f"one number as {{{name}}}", f"an array of shape {list(feature.shape)}")
    try:
        format(np.zeros((), feature.np_dtype)[()], form)
    except (ValueError, TypeError) as error:
        raise UserError(field, f"a format of a number, such as {{{name}:.1f}}", form, hint=str(error)) from error
