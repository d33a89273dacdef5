"""The families, and which of them a config.json or a model is of."""

from __future__ import annotations

import importlib
import inspect
import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import txjax.models
from txjax.errors import UserError, near_misses
from txjax.interop.huggingface.family import Family
from txjax.interop.huggingface.options import FILE, Options

log = logging.getLogger("txjax")


def _families() -> Iterator[Family]:
    """The families of all tables, which are the files `hf_*.py` in the folders of models."""
    root = Path(txjax.models.__file__).parent
    for file in sorted(root.rglob("hf_*.py")):
        module = importlib.import_module(".".join(("txjax", "models", *file.relative_to(root).with_suffix("").parts)))
        for value in vars(module).values():
            if inspect.isclass(value) and value.__module__ == module.__name__ and "model_type" in vars(value):
                yield value()


# The first that matches a model writes it: a general one only what no other one does.
FAMILIES: tuple[Family, ...] = tuple(sorted(_families(), key=lambda family: vars(type(family)).get("general", False)))


def class_of(options: Options) -> tuple[Family, Options]:
    """The family of a config.json, and its options with one class: if they have none, that with the fewest heads."""
    kind = options.values.get("model_type")
    named = options.values.get("architectures") or ()
    known = {family.model_type: family for family in FAMILIES}
    if not isinstance(kind, str) or kind not in known:
        near = near_misses(str(kind)[:100], known)
        raise UserError(f"{FILE}: model_type", "one of " + ", ".join(known), kind, near)
    family = known[kind]
    if not named:
        named = family.architectures[-1:]
        log.warning("%s: no architectures; it is read as a %s", FILE, named[0])
    if not isinstance(named, list | tuple) or len(named) != 1 or named[0] not in family.architectures:
        got = ", ".join(map(str, named)) if isinstance(named, list) else named
        raise options.refuse("architectures", "one of " + ", ".join(family.architectures), got)
    return family, options.with_values(options.values | {"architectures": list(named)})


def family_of(model: Any) -> Family:
    """The family of a model. Raises UserError if it is of none."""
    for family in FAMILIES:
        if family.matches(model):
            return family
    known = ", ".join(family.model_type for family in FAMILIES)
    raise UserError("config.model", f"a model that Hugging Face has too ({known})", type(model).__name__)
