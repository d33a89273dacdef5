"""The tokenizer of images equals its formulas in numpy; gradients pass straight through its codes."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from txjax.models.vision.vq_tokenizer import VQTokenizer
from txjax.models.vision.vq_tokenizer.card import CARD
from txjax.nn import Codebook, GroupNorm
from txjax.parametrization import DepthMuP
from txjax.types import UserError

from helpers.arrays import call, numbers, variables

pytestmark = pytest.mark.claim(
    "Models and objectives",
    "MaskGIT's tokenizer equals its formulas in numpy; gradients pass straight through the codes",
)

IMAGE = numbers(2, 6, 10, 1)


def tokenizer(**fields: Any) -> VQTokenizer:
    sizes = {"width": 4, "depth": 1, "multipliers": (1, 2), "codes": 7, "code_size": 3, "channels": 1}
    return VQTokenizer(**{"norm": GroupNorm(groups=2, eps=1e-6), **sizes, **fields})


def conv(x: np.ndarray, p: dict[str, Any]) -> np.ndarray:
    """A convolution with zeros around, as a sum over its taps."""
    side = len(p["kernel"])
    padded = np.pad(x, [(0, 0), (side // 2,) * 2, (side // 2,) * 2, (0, 0)])
    rows, columns = x.shape[1:3]
    taps = [(i, j) for i in range(side) for j in range(side)]
    y = sum(padded[:, i : i + rows, j : j + columns] @ p["kernel"][i, j] for i, j in taps)
    return y + p.get("bias", 0)


def normed_silu(x: np.ndarray, p: dict[str, Any], groups: int = 2) -> np.ndarray:
    cut = x.reshape(len(x), -1, groups, x.shape[-1] // groups)
    mean, variance = (f(cut, axis=(1, 3), keepdims=True) for f in (np.mean, np.var))
    y = ((cut - mean) / np.sqrt(variance + 1e-6)).reshape(x.shape) * p["scale"] + p["bias"]
    return y / (1 + np.exp(-y))


def block(x: np.ndarray, p: dict[str, Any]) -> np.ndarray:
    y = conv(normed_silu(conv(normed_silu(x, p["norm1"]), p["conv1"]), p["norm2"]), p["conv2"])
    return y + (conv(x, p["conv_shortcut"]) if "conv_shortcut" in p else x)


def encoded(x: np.ndarray, p: dict[str, Any]) -> np.ndarray:
    x = block(conv(x, p["stem"]), p["stage0_block0"])
    x = x.reshape(len(x), x.shape[1] // 2, 2, x.shape[2] // 2, 2, -1).mean((2, 4))
    x = block(block(x, p["stage1_block0"]), p["middle_block0"])
    return conv(normed_silu(x, p["norm_final"]), p["out"])


def decoded(x: np.ndarray, p: dict[str, Any]) -> np.ndarray:
    x = block(block(conv(x, p["stem"]), p["middle_block0"]), p["stage1_block0"])
    x = block(conv(x.repeat(2, 1).repeat(2, 2), p["stage1_up"]), p["stage0_block0"])
    return conv(normed_silu(x, p["norm_final"]), p["out"])


def test_it_equals_its_formulas() -> None:
    model = tokenizer()
    drawn = variables(model, IMAGE)

    @jax.jit
    def run(drawn: Any, image: jax.Array) -> Any:
        tokens = model.apply(drawn, image, method="encode")
        return model.apply(drawn, image), tokens, model.apply(drawn, tokens, method="decode")

    seen, tokens, painted = jax.device_get(call(run, drawn, IMAGE))
    p = jax.tree.map(np.float64, drawn["params"])
    features = encoded(np.float64(IMAGE), p["encoder"])
    distances = np.square(features[..., None, :] - p["codebook"]["codes"]).sum(-1)
    np.testing.assert_allclose(seen.features, features, atol=1e-5)
    np.testing.assert_array_equal(tokens, distances.argmin(-1))
    np.testing.assert_array_equal(seen.tokens, tokens)
    assert tokens.shape == (2, 3, 5) and len(np.unique(tokens)) > 2
    np.testing.assert_array_equal(seen.codes, drawn["params"]["codebook"]["codes"][tokens])
    for image in (seen.image, painted):
        np.testing.assert_allclose(image, decoded(p["codebook"]["codes"][tokens], p["decoder"]), atol=1e-4)


def test_the_gradient_of_the_features_is_that_of_their_codes() -> None:
    model = tokenizer()
    drawn = jax.tree.map(jnp.asarray, variables(model, IMAGE))
    params, wanted = drawn["params"], numbers(*IMAGE.shape, seed=1)

    @jax.jit
    def run(params: Any, image: jax.Array) -> Any:
        def loss(params: Any) -> jax.Array:
            return (model.apply({"params": params}, image).image * wanted).sum()

        def of_codes(codes: jax.Array) -> jax.Array:
            return (model.apply({"params": params}, codes, False, method="painted") * wanted).sum()

        codes = model.apply({"params": params}, image).codes
        return jax.grad(loss)(params), jax.grad(of_codes)(codes)

    found, of_codes = call(run, params, IMAGE)
    np.testing.assert_allclose(found["encoder"]["out"]["bias"], of_codes.sum((0, 1, 2)), rtol=1e-3, atol=1e-4)
    assert not np.any(found["codebook"]["codes"])  # no gradient of the image goes to the codes


def test_of_equally_near_codes_the_first_is_taken() -> None:
    codes = np.array([[3, 0], [1, 1], [-1, 1], [1, 1]], np.float32)
    found = call(Codebook(4, 2).apply, {"params": {"codes": codes}}, np.float32([[1, 2], [0, 0]]), method="nearest")
    np.testing.assert_array_equal(found, [1, 1])


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"channels": 3}, r"^config.model.channels: expected 1, as the images have, got 3"),
        ({"multipliers": (1, 1, 2)}, r"^config.model.multipliers: expected at most 2 numbers .* 6 x 10 pixels"),
        ({"norm": GroupNorm(groups=3)}, r"^GroupNorm.groups: expected a divisor of the 4 channels"),
        ({"parametrization": DepthMuP(4, 1, 1)}, r"^config.model.parametrization: expected MuP\(\) or Standard\(\)"),
    ],
)
def test_what_doesnt_suit_is_one_line(fields: dict[str, Any], message: str) -> None:
    with pytest.raises(UserError, match=message):
        variables(tokenizer(**fields), IMAGE)


def test_vq_tokenizer_by_its_shapes() -> None:
    """Encoder, codebook and decoder; a block of other channels projects its input (Esser et al. 2021)."""

    def block(i: int, o: int) -> int:
        return 2 * i + 9 * i * o + 2 * o + 9 * o * o + (i * o if i != o else 0)

    widths = [128, 128, 256, 256, 512]
    encoder = 27 * 128 + sum(block(i, o) + block(o, o) for i, o in zip([128, *widths], widths, strict=False))
    encoder += 2 * block(512, 512) + 2 * 512 + 512 * 256 + 256
    decoder = 9 * 256 * 512 + 512 + 2 * block(512, 512) + 2 * 128 + 27 * 128 + 3
    decoder += sum(block(i, o) + block(o, o) for i, o in zip([512, *widths[::-1]], widths[::-1], strict=False))
    decoder += sum(9 * o * o + o for o in widths[1:])
    assert (encoder, decoder) == (23_611_264, 30_560_259)
    assert encoder + decoder + 1024 * 256 == CARD.presets[0].sizes[""].parameters
