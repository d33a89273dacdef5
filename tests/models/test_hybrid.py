"""A ViT on the feature map of another encoder."""

from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from txjax.interop import huggingface
from txjax.models.hierarchical import Stage
from txjax.models.vision.conv_net import ConvNet
from txjax.models.vision.mae import MAE
from txjax.models.vision.swin import Swin
from txjax.models.vision.vit import ViT
from txjax.nn import Classes, FirstToken, Learned, MeanTokens, PatchEmbedding, WindowAttention
from txjax.types import UserError, flat_paths

from helpers.arrays import numbers, shapes, variables

IMAGE = jnp.asarray(numbers(2, 8, 12, 3))
SIZES: dict[str, Any] = dict(width=8, depth=1, heads=2)
STEM = ConvNet(width=4, depth=1, stages=3)  # to 2 x 3 places of 16 channels

STAGES = (Stage(4, 1, 1), Stage(8, 1, 2))
SWIN = Swin(stages=STAGES, stem=PatchEmbedding(patch=2), mixer=WindowAttention(side=2))


def hybrid(**fields: Any) -> ViT:
    head, positions = Classes(3, FirstToken()), Learned(max_length=7)
    return ViT(**SIZES | dict(patch=1, stem=STEM, head=head, positions=positions) | fields)


def test_it_is_a_vit_of_the_stem_s_map() -> None:
    model = hybrid()
    made = variables(model, IMAGE)
    inner = {kind: tree["stem"] for kind, tree in made.items()}
    rest = {name: tree for name, tree in made["params"].items() if name != "stem"}
    assert rest["patch_embed"]["kernel"].shape == (16, 8) and made["batch_stats"].keys() == {"stem"}
    found = jax.jit(STEM.apply)(inner, IMAGE)
    assert found.grid[:2] == (2, 3)
    expected = jax.jit(hybrid(stem=None).apply)({"params": rest}, found.features.reshape(2, 2, 3, 16))
    np.testing.assert_allclose(jax.jit(model.apply)(made, IMAGE), expected, rtol=1e-5, atol=1e-5)


def test_the_stem_is_trained_with_the_rest() -> None:
    model = hybrid()
    made = variables(model, IMAGE)

    def loss(params: Any) -> tuple[jax.Array, Any]:
        logits, state = model.apply(made | {"params": params}, IMAGE, train=True, mutable=["batch_stats"])
        return jnp.square(logits).sum(), state

    gradient, state = jax.jit(jax.grad(loss, has_aux=True))(made["params"])
    found = flat_paths(gradient)
    assert [path for path in found if path.startswith("stem/")]
    assert all(np.isfinite(x).all() and np.abs(x).max() > 0 for path, x in found.items() if path.endswith("kernel"))
    before, after = (flat_paths(each["batch_stats"]) for each in (made, state))
    assert all(not np.array_equal(before[path], after[path]) for path in before)


def test_any_encoder_with_a_grid_is_a_stem() -> None:
    pooled = dict(class_token=None, head=Classes(3, MeanTokens()))
    made = shapes(hybrid(stem=SWIN, positions=Learned(max_length=6), **pooled), IMAGE)["params"]
    assert made["positions"]["table"]["embedding"].shape == (6, 8)
    two = shapes(hybrid(stem=ConvNet(width=4, depth=1, stages=2), patch=2), IMAGE)["params"]
    assert two["patch_embed"]["kernel"].shape == (2 * 2 * 8, 8)


def test_user_errors(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"config\.model\.stem: expected None for an MAE, got 'ConvNet'"):
        shapes(MAE(**SIZES, patch=1, stem=STEM, decoder_width=8, decoder_depth=1, decoder_heads=2), IMAGE)
    with pytest.raises(UserError, match=r"config\.model\.stem: expected an encoder of images with head=None"):
        shapes(hybrid(stem=ConvNet(width=4, depth=1, head=Classes(3, MeanTokens()))), IMAGE)
    with pytest.raises(UserError, match=r"config\.model\.stem: .* and no class token, got 'ViT'"):
        shapes(hybrid(stem=ViT(patch=4, **SIZES)), IMAGE)
    fixed = hybrid(image_size=(8, 12), stem=SWIN)
    with pytest.raises(UserError, match=r"config\.model\.stem: expected None in a file of Hugging Face's, got 'Swin'"):
        huggingface.save(fixed, variables(fixed, IMAGE), tmp_path / "files")
    with pytest.raises(UserError, match=r"config\.model\.positions\.max_length: expected at least .* 7, got 6"):
        shapes(hybrid(positions=Learned(max_length=6)), IMAGE)
