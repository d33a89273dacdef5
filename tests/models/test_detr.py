"""DETR: padding has no effect, positions of the map by their formula, what is refused. Parity is in tests/interop."""

from typing import Any

import jax
import numpy as np
import pytest

from txjax.models import Stage
from txjax.models.vision.detr import DETR, LearnedMap, SineMap
from txjax.models.vision.meta_former import MetaFormer
from txjax.models.vision.vit import ViT
from txjax.nn import Classes, Identity, LayerNorm, MeanTokens, ObjectBoxes, PatchEmbedding
from txjax.types import UserError

from helpers.arrays import call, numbers, shapes, variables


def small(**fields: Any) -> DETR:
    """On a backbone that looks at every patch of 4 x 4 pixels by itself."""
    backbone = MetaFormer(stages=(Stage(12, 1),), stem=PatchEmbedding(patch=4), mixer=Identity(), norm=LayerNorm())
    sizes: dict[str, Any] = dict(queries=3, width=8, depth=2, heads=2, head=ObjectBoxes(4))
    return DETR(**dict(backbone=backbone) | sizes | fields)


def test_padding_changes_nothing() -> None:
    """An image with padding, whatever its pixels are, gives what the image alone gives."""
    model, image = small(), numbers(1, 12, 20, 1)
    made = variables(model, image)
    alone = call(jax.jit(model.apply), made, image)
    assert alone.logits.shape == (2, 1, 3, 5) and alone.boxes.shape == (2, 1, 3, 4)
    padded = numbers(2, 20, 28, 1, seed=1)
    padded[0, :12, :20] = image[0]
    seen = call(jax.jit(model.apply), made, padded, np.array([[12, 20], [20, 28]], np.int32))
    for ours, theirs in zip(seen[:2], alone[:2], strict=True):
        np.testing.assert_allclose(ours[:, 0], theirs[:, 0], rtol=1e-4, atol=1e-5)
    empty = call(jax.jit(model.apply), made, padded, np.zeros((2, 2), np.int32))
    assert all(np.isfinite(part).all() for part in jax.tree.leaves(empty))


def test_layers_share_norm_and_head() -> None:
    """The predictions after each layer are of a model of that depth."""
    model, image = small(depth=3), numbers(2, 12, 8, 1)
    made = variables(model, image)
    whole = call(jax.jit(model.apply), made, image)
    for depth in (1, 2):
        params = dict(made["params"])
        layers = jax.tree.map(lambda x, depth=depth: x[:depth], params["decoder"]["layers"])
        params["decoder"] = params["decoder"] | {"layers": layers}
        shallow = small(depth=depth, encoder_depth=3)
        predictions = call(jax.jit(shallow.apply), {"params": params}, image)
        for ours, theirs in zip(predictions[:2], whole[:2], strict=True):
            np.testing.assert_allclose(ours[-1], theirs[depth - 1], rtol=1e-4, atol=1e-5)


def test_sines_of_a_map() -> None:
    """By the formula of appendix A.4: rows first, counted from 1, over the rows that are not padding."""
    real = np.zeros((2, 3, 4), bool)
    real[0], real[1, :2, :3] = True, True
    found = np.asarray(call(SineMap(theta=100.0).apply, {}, real, 8)).reshape(2, 3, 4, 8)
    for example, (rows, columns) in enumerate([(3, 4), (2, 3)]):
        for row in range(rows):
            for column in range(columns):
                wanted = []
                for place, count in ((row, rows), (column, columns)):
                    for i in range(2):
                        angle = 2 * np.pi * (place + 1) / (count + 1e-6) / 100.0 ** (2 * i / 4)
                        wanted += [np.sin(angle), np.cos(angle)]
                np.testing.assert_allclose(found[example, row, column], wanted, atol=1e-5)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        (
            {"backbone": ViT(patch=4, width=8, depth=1, heads=2, head=None)},
            "config.model.backbone: expected an encoder",
        ),
        (
            {"backbone": MetaFormer(stages=(Stage(8, 1),), head=Classes(3, MeanTokens()))},
            "config.model.backbone: expected an encoder of images with head=None",
        ),
        ({"width": 10, "heads": 1}, "config.model.width: expected a multiple of 4 for SineMap"),
        ({"map_positions": LearnedMap(most=2)}, "config.model.map_positions.most: expected at least 3, got 2"),
    ],
)
def test_errors(fields, message) -> None:
    with pytest.raises(UserError, match=message):
        shapes(small(**fields), numbers(1, 12, 8, 1))
