"""An encoder whose sizes are its own, in models of text and of images."""

import math
from typing import Any

import jax
import jax.numpy as jnp
import pytest

from txjax.models import Stage
from txjax.models.text.encoder_decoder import transformer
from txjax.models.vision.detr import DETR
from txjax.models.vision.meta_former import MetaFormer
from txjax.nn import MLP, Identity, LayerNorm, PatchEmbedding
from txjax.parametrization import CompleteP

from helpers.arrays import shapes

WIDTH, DEPTH = 8, 3
SIZES: dict[str, Any] = {"width": WIDTH, "depth": DEPTH, "heads": 2, "mlp": MLP(hidden=10)}
TOKENS = jnp.zeros((1, 4), jnp.int32)


def translator(**fields: Any) -> dict[str, Any]:
    return shapes(transformer(vocab=11, **SIZES | fields), TOKENS, TOKENS)["params"]


def detector(**fields: Any) -> dict[str, Any]:
    backbone = MetaFormer(stages=(Stage(12, 1),), stem=PatchEmbedding(patch=4), mixer=Identity(), norm=LayerNorm())
    return shapes(DETR(backbone=backbone, queries=3, **SIZES | fields), jnp.zeros((1, 8, 8, 1)))["params"]


@pytest.mark.parametrize("params_of", [translator, detector])
def test_the_encoder_has_its_own_heads_and_feed_forward_layers(params_of) -> None:
    both, own = params_of(), params_of(encoder_heads=4, encoder_mlp=MLP(hidden=14), encoder_depth=1)
    sizes = [sum(math.prod(x.shape) for x in jax.tree.leaves(params["encoder"])) for params in (both, own)]
    layer = 4 * (WIDTH * WIDTH + WIDTH) + 2 * 2 * WIDTH  # attention and norms
    assert sizes == [DEPTH * (layer + 2 * WIDTH * 10 + 10 + WIDTH), layer + 2 * WIDTH * 14 + 14 + WIDTH]
    block = own["encoder"]["layers"]["block"]
    assert block["attention"]["query"]["kernel"].shape == (1, WIDTH, 4, 2)
    assert jax.tree.map(jnp.shape, own["decoder"]) == jax.tree.map(jnp.shape, both["decoder"])


def test_the_encoder_has_its_own_scaling() -> None:
    model = transformer(
        vocab=11, **SIZES, encoder_heads=1, parametrization=CompleteP(base_width=8, base_head_size=4, base_depth=3)
    )
    scalings = model.scalings()
    assert (scalings[""].head_size, scalings["encoder"].head_size) == (1.0, 2.0)
