"""Masks of the features of audio in training, for objectives that have them as a field."""

from typing import Any

import jax

from txjax.nn.audio.spec_augment import SpecAugment
from txjax.objectives.base import example_keys
from txjax.types import Batch, UserError


def mask_features(
    augment: SpecAugment | None, inputs: dict[str, Any], batch: Batch, key: jax.Array, train: bool
) -> dict[str, Any]:
    """The model's arguments with masked features, in training; if `augment` is None, and else, as they are.

    Args:
      key: of the step. An example's masks depend on it and on the example's id alone.

    Raises:
      UserError: there are masks, and the model reads no features.
    """
    if augment is None or not train:
        return inputs
    if "features" not in inputs:
        expected = "None, for a model that reads no features of audio"
        raise UserError("config.objective.augment", expected, type(augment).__name__)
    masked = augment(inputs["features"], inputs["features_length"], example_keys(key, batch))
    return inputs | {"features": masked}
