"""Masked regions beside masked tokens: which regions are hidden, the two losses by their formulas, unmatched pairs."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from txjax.models.multimodal.vilbert import GridRegions
from txjax.nn import Logits
from txjax.objectives import MaskedTextAndRegions, RegionClasses, RegionFeatures
from txjax.types import UserError

from helpers.arrays import numbers, on_jax

pytestmark = pytest.mark.claim("Models and objectives", "masked regions: classes of a detector, or features")

B, L, R = 3, 5, 5
BATCH = on_jax(
    {
        "id": np.arange(B, dtype=np.int32),
        "tokens": np.ones((B, L), np.int32),
        "weights": np.ones((B, L), np.float32),
        "next_sentence": np.asarray([1, 0, 1], np.int32),
        "image": numbers(B, 4, 4, 1),
    }
)
FIELDS = {"mask_id": 0, "vocab": 7, "region_rate": 1.0}


class Pairs:
    """A stub of a model of images in cells of 2 x 2 pixels, which records its arguments."""

    regions = GridRegions(patch=2)

    def __init__(self, *output):
        self.output = output

    def inputs(self, batch):
        return {name: batch[name] for name in ("tokens", "image")}

    def apply(self, variables, **arguments):
        self.arguments = arguments
        return self.output


class PaddedRegions(GridRegions):
    """Cells of which the last two are padding."""

    def read(self, inputs):
        return super().read(inputs)._replace(segments=jnp.asarray([[1, 1, 1, 0, 0]] * B, jnp.int32))


class PaddedPairs(Pairs):
    """The same with padding."""

    regions = PaddedRegions(patch=2)


def outcome(objective, outputs, batch=BATCH):
    model = Pairs(Logits.of(jnp.zeros((B, L, 7))), jnp.zeros((B, 2)), jnp.asarray(outputs))
    return model, objective(model, {}, batch, jax.random.key(0), False)


def test_all_but_the_whole_image_are_chosen_and_most_are_hidden():
    objective = MaskedTextAndRegions(**FIELDS, region_mask=0.9)
    chosen, hidden = objective.choose_regions(jax.random.split(jax.random.key(1), 200), 101)
    assert not chosen[:, 0].any() and chosen[:, 1:].all()
    assert 0.89 < hidden[:, 1:].mean() < 0.91 and not hidden[:, 0].any()
    rare, _ = MaskedTextAndRegions(mask_id=0, vocab=7).choose_regions(jax.random.split(jax.random.key(1), 200), 101)
    assert 0.14 < rare[:, 1:].mean() < 0.16


def test_the_error_of_features_is_that_of_matched_pairs():
    outputs = numbers(B, R, 4, seed=2)
    model, result = outcome(MaskedTextAndRegions(**FIELDS, region_mask=1.0), outputs)
    assert model.arguments["hidden_regions"].tolist() == [[False, True, True, True, True]] * B
    targets = GridRegions(patch=2).read(BATCH).features
    errors = np.square(outputs - targets).mean(-1)[[0, 2], 1:]
    mean = result.losses["masked_region"]
    np.testing.assert_allclose(mean.total, errors.sum(), rtol=1e-5)
    assert mean.count == 8 and result.losses["masked_token"].count == 2 and result.losses["next_sentence"].count == 3
    np.testing.assert_allclose(result.losses["masked_token"].value, np.log(7), rtol=1e-6)


def test_the_divergence_from_a_detectors_classes():
    """It is 0 for the classes themselves, and exact where a class has probability 0."""
    classes = np.tile(np.asarray([0.5, 0.25, 0.25, 0.0], np.float32), (B, R, 1))
    objective = MaskedTextAndRegions(**FIELDS, region=RegionClasses())
    assert objective.required_keys == ("id", "tokens", "weights", "region_classes")
    batch = BATCH | on_jax({"region_classes": classes})
    _, result = outcome(objective, np.log(np.maximum(classes, 1e-30)), batch)
    np.testing.assert_allclose(result.losses["masked_region"].value, 0.0, atol=1e-6)
    _, result = outcome(objective, np.zeros((B, R, 4), np.float32), batch)
    np.testing.assert_allclose(result.losses["masked_region"].value, np.log(4) - 1.5 * np.log(2), rtol=1e-6)


def test_regions_that_are_padding_have_no_loss():
    model = PaddedPairs(Logits.of(jnp.zeros((B, L, 7))), jnp.zeros((B, 2)), jnp.zeros((B, R, 4)))
    result = MaskedTextAndRegions(**FIELDS)(model, {}, BATCH, jax.random.key(0), False)
    assert result.losses["masked_region"].count == 4


def test_errors():
    with pytest.raises(UserError, match="head.regions.size: expected 4, for RegionFeatures of 5 regions, got '3,"):
        outcome(MaskedTextAndRegions(**FIELDS, region=RegionFeatures()), numbers(B, R, 3))
    model = Pairs(Logits.of(jnp.zeros((B, L, 7))), None)
    with pytest.raises(UserError, match=r"config.model: .*masked tokens and regions.*its head must be MaskedPairs"):
        MaskedTextAndRegions(**FIELDS).check_output(model, model.output, BATCH)
