"""BiT: units by their formula, the first of a stage as its downsampling, standardised kernels."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from txjax.models import Stage
from txjax.models.vision.res_net import BiT, BottleneckConvs, BottleneckStem, StandardizedConv
from txjax.models.vision.res_net.card import bit
from txjax.nn import Classes, Conv, Grid, GroupNormRelu, MeanTokens, PreActivation
from txjax.nn.adapters import LoRA
from txjax.parametrization import MuP
from txjax.types import UserError

from helpers.arrays import call, numbers, shapes, variables

STAGES = (Stage(8, 1), Stage(16, 3))
SMALL: dict[str, Any] = {"stages": STAGES, "stem": BottleneckStem(channels=4), "norm": GroupNormRelu(groups=2)}


def convolved(x: np.ndarray, made: Any, stride: int = 1) -> np.ndarray:
    """A convolution with zeros around the image, and kernels of mean 0 and variance 1 for every output channel."""
    kernel = np.asarray(made["kernel"])
    kernel = (kernel - kernel.mean((0, 1, 2))) / np.sqrt(kernel.var((0, 1, 2)) + 1e-10)
    zeros, order = [(side // 2, side // 2) for side in kernel.shape[:2]], ("NHWC", "HWIO", "NHWC")
    return np.asarray(jax.lax.conv_general_dilated(x, kernel, (stride, stride), zeros, dimension_numbers=order))


def normed(x: np.ndarray, made: Any) -> np.ndarray:
    """relu after the norm of two groups of channels."""
    y = x.reshape(len(x), -1, 2, x.shape[-1] // 2)
    y = (y - y.mean((1, 3), keepdims=True)) / np.sqrt(y.var((1, 3), keepdims=True) + 1e-5)
    return np.maximum(y.reshape(x.shape) * made["scale"] + made["bias"], 0)


def branch(x: np.ndarray, made: Any, stride: int = 1) -> np.ndarray:
    y = convolved(normed(convolved(x, made["conv_1"]), made["norm_2"]), made["conv_2"], stride)
    return convolved(normed(y, made["norm_3"]), made["conv_3"])


def first(x: np.ndarray, made: Any, stride: int) -> np.ndarray:
    y = normed(x, made["norm"])
    return convolved(y, made["conv_shortcut"], stride) + branch(y, made, stride)


def test_equals_the_formula_of_its_units() -> None:
    model, image = BiT(**SMALL, head=Classes(3, MeanTokens())), numbers(2, 13, 10, 3)
    made = variables(model, image)
    params = made["params"]
    x = np.pad(convolved(image, params["downsample_0"]["conv_stem"], 2), [(0, 0), (1, 1), (1, 1), (0, 0)])
    rows, columns = (range(0, size - 2, 2) for size in x.shape[1:3])
    x = np.stack([np.stack([x[:, r : r + 3, c : c + 3].max((1, 2)) for c in columns], 1) for r in rows], 1)
    x = first(first(x, params["downsample_0"], 1), params["downsample_1"], 2)
    assert "stages_0" not in params  # whose only unit is the stem's
    for layer in range(2):
        own = jax.tree.map(lambda leaf, layer=layer: leaf[layer], params["stages_1"]["layers"]["block"])
        x = x + branch(normed(x, own["norm_mixer"]), own["mixer"])
    features = normed(x, params["norm_final"]).mean((1, 2))
    wanted = features @ params["head"]["kernel"] + params["head"]["bias"]
    np.testing.assert_allclose(call(jax.jit(model.apply), made, image), wanted, rtol=1e-4, atol=1e-4)


def test_features_of_a_chosen_last_stage() -> None:
    """The residual network of the hybrid R50+ViT-B/16: the fourth stage's units are in the third."""
    model = bit("R50x1", stages=(Stage(256, 3), Stage(512, 4), Stage(1024, 9)), head=None)
    image = jax.ShapeDtypeStruct((1, 224, 192, 3), jnp.float32)
    encoded, made = jax.eval_shape(lambda image: model.init_with_output(jax.random.key(0, impl="rbg"), image), image)
    assert encoded.grid == Grid(14, 12) and encoded.features.shape == (1, 14 * 12, 1024)
    depths = [made["params"][f"stages_{i}"]["layers"]["block"]["norm_mixer"]["scale"].value.shape for i in range(3)]
    assert depths == [(2, 256), (3, 512), (8, 1024)]


def test_stochastic_depth_counts_the_first_units() -> None:
    model = BiT(**SMALL, block=PreActivation(drop_path=0.3))
    found = [layers.stack.depth_fractions(layers.depth) for layers in map(model.layers_of, range(2))]
    np.testing.assert_allclose(np.concatenate(found), [2 / 3, 1], atol=1e-6)


def test_the_kernel_of_a_standardised_convolution_has_no_scale() -> None:
    x, conv = numbers(2, 5, 6, 4), StandardizedConv((3,), eps=1e-3)
    made = variables(conv, x)
    kernel = made["params"]["kernel"]
    plain = (kernel - kernel.mean((0, 1, 2))) / np.sqrt(kernel.var((0, 1, 2)) + 1e-3)
    wanted = call(Conv((3,)).apply, {"params": made["params"] | {"kernel": plain}}, x)
    np.testing.assert_allclose(call(conv.apply, made, x), wanted, rtol=1e-5, atol=1e-5)
    shifted, exact = {"params": made["params"] | {"kernel": 5 * kernel + 2}}, conv.clone(eps=1e-10)
    np.testing.assert_allclose(call(exact.apply, shifted, x), call(exact.apply, made, x), rtol=1e-4, atol=1e-4)


def test_an_image_of_one_pixel_has_finite_outputs() -> None:
    model, image = BiT(**SMALL | {"stages": STAGES[:1]}), numbers(1, 1, 1, 1)
    assert np.isfinite(call(jax.jit(model.apply), variables(model, image), image).features).all()


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"norm": GroupNormRelu(groups=3)}, "GroupNorm.groups: expected a divisor of the 4 channels, got 3"),
        ({"stages": (Stage(6, 1),)}, r"config\.model\.stages\.width: expected a multiple of 4, got 6"),
        ({"mixer": BottleneckConvs(norm=GroupNormRelu())}, r"config\.model\.mixer\.norm: expected nothing"),
        ({"parametrization": MuP(8, 8)}, r"parametrization: expected Standard\(\) for standardised kernels"),
        ({"adapter": LoRA(paths=".*conv_1")}, "adapter"),
    ],
)
def test_bad_fields_are_errors_of_one_line(fields: dict[str, Any], words: str) -> None:
    with pytest.raises(UserError, match=words):
        shapes(BiT(**SMALL | fields), numbers(1, 16, 16, 1))
