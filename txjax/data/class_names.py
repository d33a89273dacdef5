"""Names of classes: those of an imported model, and which ones are names."""

import re
from collections.abc import Mapping
from typing import Any

Names = tuple[str, ...]


def names_of_config(config: Mapping[str, Any]) -> Names:
    """The names of the classes in a config.json of Hugging Face (`id2label`), in the order of their numbers."""
    entries = config.get("id2label")
    names = entries if isinstance(entries, dict) else {}
    numbers = [number for number in names if str(number).isdigit()]
    return tuple(str(names[number]) for number in sorted(numbers, key=int))


def known_names(names: Names | None) -> Names | None:
    """The names; None if they are numbers alone, as of a data set or a Hugging Face folder that has no names."""
    numbered = names is None or all(re.fullmatch(r"(LABEL_)?\d+", name) for name in names)
    return None if numbered else names
