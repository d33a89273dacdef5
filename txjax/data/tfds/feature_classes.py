"""Restricts the classes that the files of a prepared data set may name to TFDS's own features.

TFDS imports the module of any class that `features.json` or `dataset_info.json` names, so a file could pick what runs.
`check_file` rejects such a file before TFDS reads it; in `only_tfds_classes`, TFDS itself finds only its own classes.
In the place of `Audio`, which needs TensorFlow, stands `audio_feature.Audio`.
"""

from __future__ import annotations

import contextlib
import functools
import json
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from txjax.errors import UserError

FILES = ("features.json", "dataset_info.json")  # the second also has a field `features`
NAMED_BY = ("pythonClassName", "python_class_name")  # protobuf reads both
EXPECTED = "features of TFDS's own"

_patching = threading.RLock()  # a builder may find another set


@functools.cache
def tfds_classes() -> dict[str, Any]:
    """TFDS's feature classes, by every name that files use for them."""
    import tensorflow_datasets as tfds

    kinds = {}
    for kind in vars(tfds.features).values():
        if isinstance(kind, type) and issubclass(kind, tfds.features.FeatureConnector):
            names = (f"{kind.__module__}.{kind.__name__}", *vars(kind).get("ALIASES", ()))
            kinds.update(dict.fromkeys(names, kind))
    of_audio = [name for name, kind in kinds.items() if kind is tfds.features.Audio]
    return kinds | dict.fromkeys(of_audio, audio_class())


def audio_class() -> Any:
    """The class that stands in the place of TFDS's `Audio`."""
    from txjax.data.tfds.audio_feature import Audio  # imports TFDS

    return Audio


def check_file(path: Path) -> None:
    """Checks a JSON file of a prepared data set.

    Checks every object at any depth, also objects with duplicate keys and those in strings that are JSON themselves.

    Raises:
      UserError: it cannot be read, or names another class than TFDS's own.
    """

    def look(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        keys = {key for key, _ in pairs}
        for key, value in pairs:
            legacy = key == "type" and "content" in keys  # {"type": CLASS, "content": ...} of TFDS before 4.6
            if isinstance(value, str) and (key in NAMED_BY or legacy) and value not in tfds_classes():
                raise UserError(str(path), EXPECTED, value)
            walk(value)
        return dict(pairs)

    def walk(value: Any) -> None:
        if isinstance(value, list):
            for item in value:
                walk(item)
        if isinstance(value, str) and value.lstrip().startswith(("{", "[")):
            with contextlib.suppress(json.JSONDecodeError):
                json.loads(value, object_pairs_hook=look)

    try:
        json.loads(path.read_text(encoding="utf-8"), object_pairs_hook=look)
    except UserError:
        raise
    except (OSError, ValueError, RecursionError) as error:
        raise UserError(str(path), "JSON", hint=f"{type(error).__name__}: {error}".splitlines()[0]) from error


@contextlib.contextmanager
def only_tfds_classes(folder: Path) -> Iterator[None]:
    """Inside the block, a name in a file of this folder resolves only to TFDS's own classes and imports nothing.

    Patches `FeatureConnector.cls_from_name`, the only function of TFDS that resolves a name to a class, and
    `features.Audio`, which the code of a data set calls.

    Raises:
      UserError: inside the block, if TFDS resolves another class.
    """
    from tensorflow_datasets.core import features
    from tensorflow_datasets.core.features.feature import FeatureConnector

    def find(name: str) -> Any:
        if name not in tfds_classes():
            raise UserError(str(folder), EXPECTED, name)
        return tfds_classes()[name]

    with _patching:
        replaced = vars(FeatureConnector)["cls_from_name"], features.Audio
        tfds_classes()  # reads `features.Audio`
        FeatureConnector.cls_from_name = staticmethod(find)
        features.Audio = audio_class()
        try:
            yield
        finally:
            FeatureConnector.cls_from_name, features.Audio = replaced
