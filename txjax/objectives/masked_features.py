"""Masks of the features of audio in training, for objectives that have them as a field."""

from typing import Any

import jax

from txjax.data import Dataset
from txjax.errors import UserError
from txjax.nn.audio.spec_augment import SpecAugment
from txjax.objectives.base import example_keys
from txjax.types import Batch


def check_augment(augment: SpecAugment | None, data: Dataset) -> None:
    """Raises UserError if there are masks, and data without audio."""
    if augment is not None and not {"audio", "features"} & set(data.spec()):
        raise UserError("objective.augment", "None, for data without audio", type(augment).__name__)


def mask_features(
    augment: SpecAugment | None, inputs: dict[str, Any], batch: Batch, key: jax.Array, train: bool
) -> dict[str, Any]:
    """The model's arguments with masked features, in training; if `augment` is None, and else, as they are.

    Args:
      key: of the step. An example's masks depend on it and on the example's id alone.
    """
    if augment is None or not train:
        return inputs
    masked = augment(inputs["features"], inputs["features_length"], example_keys(key, batch))
    return inputs | {"features": masked}
