"""Texts made of a record's features by a format string, such as "translate English to German: {en}"."""

import string
from typing import Any

from txjax.data import records
from txjax.data.tokenizers import as_string
from txjax.types import UserError, near_misses

NUMBERS = ("Scalar", "Tensor")


class Template:
    """A format string over a data set's features: texts as they are, classes by their names, numbers by their format.

    Args:
      text: the format string; `{{` is a brace.
      features: the data set's features, of TFDS.
      field: the config field that has the text, for messages.

    Raises:
      UserError: the string is malformed, has no feature, or one that the set doesn't have.
    """

    def __init__(self, text: str, features: Any, field: str):
        self.text = text
        try:
            parts = [(name, form) for _, name, form, _ in string.Formatter().parse(text) if name is not None]
        except ValueError as error:
            raise UserError(field, "a format string such as '{text}'", text, hint=str(error)) from error
        if not parts:
            hint = f"'{{{text}}}' is that feature" if text in features else "such as '{text}'"
            raise UserError(field, "a format string with a feature in braces", text, hint=hint)
        for name, form in parts:
            if name not in features:
                raise UserError(field, f"features of the set ({', '.join(features)})", name, near_misses(name, features))
            records.check_feature(field, name, features, ("Text", "ClassLabel", *NUMBERS))
            if form and type(features[name]).__name__ not in NUMBERS:
                raise UserError(field, f"a format for numbers only, not for {name}", f":{form}")
        self.names = tuple(dict.fromkeys(name for name, _ in parts))
        self._classes = {n: features[n].names for n in self.names if type(features[n]).__name__ == "ClassLabel"}

    def __call__(self, record: dict[str, Any]) -> str:
        """The text of a record; a class that is not known (-1) is empty."""
        return self.text.format(**{name: self._written(name, record[name]) for name in self.names})

    def _written(self, name: str, value: Any) -> Any:
        if name in self._classes:
            return self._classes[name][int(value)] if value >= 0 else ""
        return as_string(value) if isinstance(value, bytes | str) else value

    @property
    def feature(self) -> str:
        """The name of the feature that the text consists of; of a text with more in it, the format string."""
        return self.names[0] if self.text == f"{{{self.names[0]}}}" else self.text
