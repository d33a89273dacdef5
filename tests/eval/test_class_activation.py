"""Class activation against identities of its formulas."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from txjax.models.vision.conv_net import ConvNet
from txjax.models.vision.mae import MAE
from txjax.models.vision.vit import ViT
from txjax.nn import Attention, Classes, FirstToken, Head, LastToken, MeanTokens, NoPositions, patchify
from txjax.report.inspection.class_activation import class_activation, method_of
from txjax.types import UserError

from helpers.arrays import forward, numbers, variables

IMAGES = jnp.asarray(numbers(3, 8, 8, 1))


def vit(head: Head, **fields: Any) -> ViT:
    return ViT(patch=4, head=head, width=8, depth=2, heads=2, **fields)


def activation(model: Any, params: Any) -> Any:
    return jax.jit(lambda v, x: class_activation(model, v, {"image": x}))(params, IMAGES)


@pytest.mark.parametrize(
    "model",
    [
        vit(Classes(3, MeanTokens())),
        pytest.param(ConvNet(width=4, depth=1, stages=2, head=Classes(3, MeanTokens())), marks=pytest.mark.slow),
    ],
    ids=["vit", "conv"],
)
def test_the_mean_of_cam_is_the_logit_less_the_bias(model: Any) -> None:
    params = variables(model, image=IMAGES)
    found, logits = activation(model, params), forward(model)(params, IMAGES)
    np.testing.assert_allclose(found.logits, logits, rtol=1e-5, atol=1e-6)
    chosen = np.asarray(logits).argmax(-1)
    want = np.asarray(logits).max(-1) - np.asarray(params["params"]["head"]["bias"])[chosen]
    assert method_of(model) == "CAM" and np.ptp(found.maps) > 0
    np.testing.assert_allclose(found.maps.mean((1, 2)), want, rtol=1e-4, atol=1e-6)


def test_grad_cam_before_the_only_layer() -> None:
    """The gradient of the projection's bias is the sum of the layer input's over all patches."""
    model = vit(Classes(3, FirstToken()), positions=NoPositions()).clone(depth=1)
    params = variables(model, image=IMAGES)
    assert method_of(model) == "Grad-CAM before the last layer"
    found = activation(model, params)
    embed = params["params"]["patch_embed"]

    def logit(bias: jax.Array, image: jax.Array) -> jax.Array:
        own = {"params": {**params["params"], "patch_embed": {**embed, "bias": bias}}}
        return model.apply(own, image[None])[0].max()

    gradients = jax.jit(jax.vmap(jax.grad(logit), (None, 0)))(jnp.asarray(embed["bias"]), IMAGES)
    inputs = np.asarray(patchify(IMAGES, 4)) @ embed["kernel"] + embed["bias"]
    want = np.maximum(np.einsum("bnd,bd->bn", inputs, np.asarray(gradients) / 4), 0)
    assert np.any(want)
    np.testing.assert_allclose(found.maps.reshape(3, 4), want, rtol=1e-4, atol=1e-6)


@pytest.mark.slow
def test_grad_cam_of_layers_that_take_turns() -> None:
    """As of layers of one kind that compute the same: a window of all tokens."""
    maps = []
    for attention in (Attention(), (Attention(), Attention(window=9))):
        model = vit(Classes(3, FirstToken()), mixer=attention)
        params = variables(model, image=IMAGES)
        maps.append(activation(model, params).maps)
    assert np.any(maps[0])
    np.testing.assert_allclose(maps[1], maps[0], rtol=1e-4, atol=1e-7)


def test_heads_without_class_activation() -> None:
    assert method_of(vit(Classes(3, LastToken()))) == "Grad-CAM"
    for model in (vit(None), MAE(patch=4, width=8, depth=1, heads=2)):  # type: ignore[arg-type]
        with pytest.raises(UserError, match="config.model.head: expected Classes"):
            method_of(model)
