"""An objective on a model that it doesn't suit is one line, before anything compiles."""

from pathlib import Path
from typing import Any

import flax.linen as nn
import jax
import jax.numpy as jnp
import pytest

from txjax.objectives import Classification, MaskedPatch, NextToken, Objective, apply_model
from txjax.types import UserError

from helpers import runs

CONFIG = """
from txjax.data import Bytes, Images, NextTokenWindows, TextWindows
from txjax.eval import Evaluation, Reconstructions
from txjax.experiment import Experiment
from txjax.models.hierarchical import Stage
from txjax.models.text.bert import Bert
from txjax.models.vision.res_net import BiT
from txjax.models.vision.vit import ViT
from txjax.objectives import MaskedPatch, MaskedToken, NextToken
from txjax.optim import AdamW

DIGITS = Images(name="txjax_digits", shape=(8, 8, 1))
WINDOWS = TextWindows(name="txjax_python_text", length=16, tokenizer=Bytes(specials=("[MASK]",)))

def get_config():
    return Experiment({}, optimizer=AdamW(), num_steps=200, batch_size=8, trackers=())
"""
PAIRS = {
    "BiT MaskedPatch": (
        "BiT(stages=(Stage(8, 1),)), MaskedPatch(), DIGITS, evals={'painted': Reconstructions(data=DIGITS)}",
        "config.model: expected a model that takes keep, for MaskedPatch, got 'BiT, which takes image'; "
        "MaskedPatch suits models such as MAE",
    ),
    "ViT MaskedToken": (
        "ViT(patch=2, width=8, depth=1, heads=2), MaskedToken(mask_id=256, vocab=256), WINDOWS, "
        "evals={'valid': Evaluation(data=WINDOWS)}",
        "config.model: expected a model that takes tokens, for MaskedToken, "
        "got 'ViT, which takes image, keep'; MaskedToken suits models such as Bert",
    ),
    "Bert NextToken": (
        "Bert(vocab=256, width=8, depth=1, heads=2), NextToken(), "
        "NextTokenWindows(name='txjax_python_text', length=16)",
        "config.model: expected a model that returns logits [B L V], for NextToken, got 'Bert'; "
        "its head must be Tied() or Untied()",
    ),
}
IMAGES = {"id": jnp.arange(2), "image": jnp.zeros((2, 4, 4, 1)), "weights": jnp.ones(2), "label": jnp.zeros(2, int)}
TOKENS = {"tokens": jnp.zeros((2, 3), int)}
RNGS = {"params": jax.random.key(0)}


@pytest.mark.parametrize("pair", PAIRS)
def test_train_reports_an_unsuited_pair_in_one_line(tmp_path: Path, pair: str) -> None:
    config, workdir = tmp_path / "config.py", tmp_path / "run"
    parts, message = PAIRS[pair]
    config.write_text(CONFIG.format(parts))
    code, _, error = runs.train_here(config, workdir)
    assert code == 2 and error == f"txjax: {message}\n" and not workdir.exists()


class Pixels(nn.Module):
    """A model of a user's own, of which only the names of its arguments are known."""

    @nn.compact
    def __call__(self, image: jax.Array, train: bool = False) -> jax.Array:
        return nn.Dense(3)(image.reshape(len(image), -1))

    def rows(self, image: jax.Array, scale: float = 1.0, train: bool = False) -> jax.Array:
        return scale * image[:, 0]


class Pictures(Pixels):
    """A model that also needs what no objective gives."""

    @nn.compact
    def __call__(self, image: jax.Array, depth: jax.Array, train: bool = False) -> jax.Array:
        return nn.Dense(3)(image.reshape(len(image), -1)) + depth


class Named(Pixels):
    """A model that takes any arguments."""

    @nn.compact
    def __call__(self, **inputs: Any) -> jax.Array:
        return nn.Dense(3)(inputs["image"].reshape(len(inputs["image"]), -1))


class Untrained(Pixels):
    """A model that has no two modes."""

    @nn.compact
    def __call__(self, image: jax.Array) -> jax.Array:
        return nn.Dense(3)(image.reshape(len(image), -1))


@pytest.mark.parametrize("model", [Pixels(), Named()])
def test_a_model_of_ones_own_suits_by_its_arguments(model: nn.Module) -> None:
    params = Classification().init(model, RNGS, IMAGES)
    assert Classification()(model, params, IMAGES, jax.random.key(0), False).losses


@pytest.mark.parametrize(
    ("model", "objective", "message"),
    [
        (Pixels(), NextToken(), "config.model: expected a model that takes tokens, for NextToken, got 'Pixels,"),
        (
            Pixels(),
            MaskedPatch(),
            "config.model: expected a model that takes keep, for MaskedPatch, got 'Pixels,",
        ),
        (
            Pictures(),
            Classification(),
            "config.objective: expected .* gives Pictures depth, got 'Classification",
        ),
        (
            Untrained(),
            Classification(),
            "config.model: expected a model that takes train, for Classification, got 'Unt",
        ),
    ],
)
def test_a_model_of_ones_own_that_does_not_suit(model: nn.Module, objective: Objective, message: str) -> None:
    with pytest.raises(UserError, match=message):
        objective.init(model, RNGS, TOKENS if isinstance(objective, NextToken) else IMAGES)


def test_the_arguments_of_another_method() -> None:
    inputs, key = {"image": IMAGES["image"]}, jax.random.key(0)
    rows, _ = apply_model(Pixels(), {}, inputs, IMAGES, key, False, method="rows")
    assert rows.shape == (2, 4, 1)
    with pytest.raises(UserError, match="config.model: expected a model that takes extent, got 'Pixels, which takes"):
        apply_model(Pixels(), {}, inputs | {"extent": key}, IMAGES, key, False, method="rows")
    with pytest.raises(UserError, match="config.model: expected a model with the method columns, got 'Pixels'"):
        apply_model(Pixels(), {}, inputs, IMAGES, key, False, method="columns")
