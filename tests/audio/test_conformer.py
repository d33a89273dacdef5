"""Conformers: the convolution module is its formula, and padding changes nothing, in training either."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from txjax.models.audio.conformer import Conformer, ConformerBlock, ConvModule
from txjax.nn import MLP, Attention, Identity, KernelInit, LayerContext, LayerNorm, Mask, Rotary, TokenClasses
from txjax.nn.adapters import Prompt
from txjax.nn.audio.subsampling import ImageSubsampling
from txjax.parametrization import Scaling
from txjax.types import UserError

from helpers.arrays import call, numbers, variables

LENGTHS = np.asarray([37, 23], np.int32)


def conformer(**fields: Any) -> Conformer:
    block = ConformerBlock(conv=ConvModule(kernel=5))
    sizes: dict[str, Any] = {"width": 8, "depth": 2, "heads": 2, "subsampling": ImageSubsampling(channels=4)}
    return Conformer(**sizes | {"block": block, "head": TokenClasses(5)} | fields)


def sigmoid(x: np.ndarray) -> np.ndarray:
    return 1 / (1 + np.exp(-x))


def test_conv_module_is_its_formula() -> None:
    """down(swish(norm(depthwise(up(x) * sigmoid(gate(x)))))), with zeros for padding and beyond the edges."""
    kernel, width, length = 3, 4, 6
    module, x = ConvModule(kernel=kernel, kernel_init=KernelInit()), numbers(2, length, width)
    token_mask = np.arange(length)[None] < np.asarray([6, 4])[:, None]
    context = LayerContext(mask=Mask.within(jnp.asarray(token_mask, jnp.int32)))
    drawn = variables(module, x, context)
    got = call(module.apply, drawn, x, context)
    p, statistics = drawn["params"], drawn["batch_stats"]["norm_depthwise"]
    up, gate = (x @ p[name]["kernel"] + p[name]["bias"] for name in ("up", "gate"))
    gated = np.pad(np.where(token_mask[..., None], up * sigmoid(gate), 0), ((0, 0), (1, 1), (0, 0)))
    y = sum(gated[:, i : i + length] * p["depthwise"]["kernel"][i, 0] for i in range(kernel))
    y = y + p["depthwise"]["bias"]
    y = (y - statistics["mean"]) / np.sqrt(statistics["var"] + 1e-5) * p["norm_depthwise"]["scale"] + p[
        "norm_depthwise"
    ]["bias"]
    wanted = (y * sigmoid(y)) @ p["down"]["kernel"] + p["down"]["bias"]
    np.testing.assert_allclose(got, wanted, rtol=1e-5, atol=1e-5)


def test_block_is_its_formula() -> None:
    """Two half MLPs around a mixer and a convolution, here identities, each of a normalised stream; and a last norm."""
    init, x = KernelInit(), numbers(2, 5, 4)
    mlp = MLP(hidden=3, kernel_init=init, activation="relu")
    mixer = Identity(name="mixer", kernel_init=init)
    parts: dict[str, Any] = {"norm": LayerNorm(), "dropout": 0.0, "scaling": Scaling()}
    block = ConformerBlock(mixer=mixer, conv=Identity(), mlp=mlp, **parts)
    assert block.branches == 4
    drawn = variables(block, x, LayerContext())
    got, p = call(block.apply, drawn, x, LayerContext()), drawn["params"]

    def norm(name: str, x: np.ndarray) -> np.ndarray:
        centred = x - x.mean(-1, keepdims=True)
        normed = centred / np.sqrt(np.square(centred).mean(-1, keepdims=True) + 1e-6)
        return normed * p[f"norm_{name}"]["scale"] + p[f"norm_{name}"]["bias"]

    def half_mlp(name: str, x: np.ndarray) -> np.ndarray:
        up, down = p[name]["up"], p[name]["down"]
        hidden = np.maximum(norm(name, x) @ up["kernel"] + up["bias"], 0)
        return x + (hidden @ down["kernel"] + down["bias"]) / 2

    y = half_mlp("mlp_first", x)
    y = y + norm("mixer", y)
    y = y + norm("convolution", y)
    np.testing.assert_allclose(got, norm("out", half_mlp("mlp", y)), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("fields", [{}, {"mixer": Attention(), "positions": Rotary()}], ids=["relative", "rotary"])
def test_padding_changes_neither_outputs_nor_statistics(fields: dict[str, Any]) -> None:
    """80 more frames of padding, in training."""
    model, features = conformer(depth=1, **fields), numbers(2, 37, 12)
    params = variables(model, features, LENGTHS)

    def train(features: np.ndarray) -> tuple[Any, Any]:
        apply = jax.jit(lambda *args: model.apply(*args, train=True, mutable=["batch_stats"]))
        return call(apply, params, features, LENGTHS)

    outputs, state = train(features)
    longer, state_of_longer = train(np.pad(features, ((0, 0), (0, 80), (0, 0)), constant_values=9.0))
    for i, length in enumerate(model.output_length(jnp.asarray(LENGTHS))):
        np.testing.assert_allclose(longer[i, :length], outputs[i, :length], rtol=1e-4, atol=1e-5)
    jax.tree.map(lambda x, y: np.testing.assert_allclose(x, y, rtol=1e-5, atol=1e-6), state_of_longer, state)


def test_padding_is_read_if_it_is_to_be() -> None:
    """By convolutions, as in Wav2Vec2-Conformer; the keys of attention are still those of the utterance."""
    features, length = numbers(1, 40, 12), np.asarray([20], np.int32)

    def difference(block: ConformerBlock) -> float:
        """Of an utterance's outputs alone and before padding."""
        model = conformer(depth=1, reads_padding=True, block=block)
        params, apply = variables(model, features), jax.jit(model.apply)
        alone, in_a_batch = (call(apply, params, x, length) for x in (features[:, :20], features))
        return float(np.abs(alone - in_a_batch[:, : alone.shape[1]]).max())

    assert difference(ConformerBlock(conv=ConvModule(kernel=5))) > 1e-3
    assert difference(ConformerBlock(conv=Identity())) < 1e-5


def test_any_norm_may_be_in_the_convolution_module() -> None:
    model = conformer(depth=1, block=ConformerBlock(conv=ConvModule(kernel=5, norm=LayerNorm())))
    drawn = variables(model, numbers(1, 8, 12))
    assert set(drawn) == {"params"}
    assert call(model.apply, drawn, numbers(1, 8, 12)).shape == (1, 2, 5)


def test_tokens_are_scaled_by_a_power_of_the_width() -> None:
    """NeMo's factor is sqrt(D): the same as a stem of sqrt(D) times its output."""
    plain, scaled = conformer(depth=1), conformer(depth=1, scale_exponent=0.5)
    features = numbers(1, 16, 12)
    drawn = variables(plain, features)
    out = {name: np.sqrt(8) * x for name, x in drawn["params"]["stem"]["out"].items()}
    params = drawn["params"] | {"stem": drawn["params"]["stem"] | {"out": out}}
    wanted = call(plain.apply, drawn | {"params": params}, features)
    np.testing.assert_allclose(call(scaled.apply, drawn, features), wanted, rtol=1e-4, atol=1e-5)


def test_a_prompt_is_refused() -> None:
    """A convolution would take its tokens for neighbours."""
    with pytest.raises(UserError, match=r"config\.model\.adapter"):
        variables(conformer(adapter=Prompt()), numbers(1, 8, 12))
