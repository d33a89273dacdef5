"""Branchformers: the gate is its formula, padding changes nothing, and training reports the weights of branches."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax.core import meta
from flax.traverse_util import flatten_dict, unflatten_dict

from txjax.models.audio.branchformer import (
    Branchformer,
    BranchformerBlock,
    ConvGatingMLP,
    FixedAverage,
    LearnedAverage,
    Merge,
    UnmaskedSubsampling,
)
from txjax.models.text.encoder_decoder import EncoderDecoder
from txjax.nn import KernelInit, LayerContext, Mask, TokenClasses
from txjax.nn.adapters import Prompt
from txjax.nn.audio.subsampling import ImageSubsampling
from txjax.objectives import CTC
from txjax.types import UserError

from helpers.arrays import call, numbers, shapes, variables

LENGTHS = np.asarray([37, 23], np.int32)


def branchformer(merge: Merge, **fields: Any) -> Branchformer:
    sizes: dict[str, Any] = {"width": 8, "depth": 2, "heads": 2}
    subsampling = ImageSubsampling(channels=4, zeros=0)
    parts = {"subsampling": subsampling, "mlp": ConvGatingMLP(kernel=3), "block": BranchformerBlock(merge=merge)}
    return Branchformer(**sizes | parts | {"head": TokenClasses(5)} | fields)


def test_conv_gating_mlp_is_its_formula() -> None:
    """down(relu(up(x)) * (1 + depthwise(norm(relu(gate(x)))))), with zeros for padding and beyond the edges."""
    kernel, width, length = 3, 4, 6
    module = ConvGatingMLP(kernel=kernel, hidden=5, activation="relu", kernel_init=KernelInit())
    x = numbers(2, length, width)
    token_mask = np.arange(length)[None] < np.asarray([6, 4])[:, None]
    context = LayerContext(mask=Mask.within(jnp.asarray(token_mask, jnp.int32)))
    params = variables(module, x, context)
    got, p = call(module.apply, params, x, context), params["params"]
    up, gate = (np.maximum(x @ p[name]["kernel"] + p[name]["bias"], 0) for name in ("up", "gate"))
    centred = gate - gate.mean(-1, keepdims=True)
    gate = centred / np.sqrt(np.square(centred).mean(-1, keepdims=True) + 1e-12)
    gate = gate * p["norm_gate"]["scale"] + p["norm_gate"]["bias"]
    padded = np.pad(np.where(token_mask[..., None], gate, 0), ((0, 0), (1, 1), (0, 0)))
    gate = sum(padded[:, i : i + length] * p["depthwise"]["kernel"][i, 0] for i in range(kernel))
    gate = 1 + gate + p["depthwise"]["bias"]
    wanted = (up * gate) @ p["down"]["kernel"] + p["down"]["bias"]
    np.testing.assert_allclose(got, wanted, rtol=1e-4, atol=1e-5)


def test_a_gate_begins_as_one() -> None:
    """The MLP of new parameters is down(relu(up(x))), to three digits."""
    module = ConvGatingMLP(hidden=16, kernel=3, activation="relu", kernel_init=KernelInit())
    x = jnp.asarray(numbers(1, 6, 8))
    params = meta.unbox(jax.jit(module.init)(jax.random.key(0), x, LayerContext()))
    up, down = (params["params"][name]["kernel"] for name in ("up", "down"))
    np.testing.assert_allclose(module.apply(params, x, LayerContext()), jax.nn.relu(x @ up) @ down, atol=1e-3)


def test_padding_changes_no_outputs() -> None:
    """80 more frames of padding, in training."""
    model, features = branchformer(LearnedAverage()), numbers(2, 37, 12)
    params = variables(model, features, LENGTHS)
    apply = jax.jit(lambda *args: model.apply(*args, train=True))
    outputs = call(apply, params, features, LENGTHS)
    padded = np.pad(features, ((0, 0), (0, 80), (0, 0)), constant_values=9.0)
    longer = call(apply, params, padded, LENGTHS)
    for i, length in enumerate(model.output_length(LENGTHS)):
        np.testing.assert_allclose(longer[i, :length], outputs[i, :length], rtol=1e-4, atol=1e-5)


def test_training_reports_the_weight_of_the_mixer_by_layer() -> None:
    """It is sigmoid(b - c) for scores of biases b, c and kernels of zeros: a mean over examples of weight 1."""
    model, batch = (
        branchformer(LearnedAverage()),
        {
            "id": jnp.arange(3),
            "features": jnp.asarray(numbers(3, 37, 12)),
            "features_length": jnp.asarray([37, 23, 30]),
            "transcript": jnp.asarray([[1, 2], [3, 0], [1, 0]]),
            "transcript_length": jnp.asarray([2, 1, 1]),
            "weights": jnp.asarray([1.0, 1.0, 0.0]),
        },
    )
    leaves = flatten_dict(variables(model, batch["features"]), sep="/")
    scores = "params/layers/block/merged/score"
    leaves |= {f"{scores}_{name}/kernel": jnp.zeros((2, 8, 1)) for name in ("mixer", "mlp")}
    leaves |= {f"{scores}_mixer/bias": jnp.asarray([[1.0], [-2.0]]), f"{scores}_mlp/bias": jnp.zeros((2, 1))}
    step = jax.jit(lambda variables, batch: CTC()(model, variables, batch, jax.random.key(0), True))
    metrics = step(unflatten_dict(leaves, sep="/"), batch).metrics
    for layer, logit in enumerate((1.0, -2.0)):
        mean = metrics[f"mixer_weight/layer_{layer}"]
        np.testing.assert_allclose(mean.total / mean.count, 1 / (1 + np.exp(-logit)), rtol=1e-5)
        assert mean.count == 2


def test_a_dropped_branch_has_no_weight() -> None:
    """With a branch dropout of 1, training is that of the MLP alone; evaluation is not."""
    model, features = branchformer(LearnedAverage(branch_dropout=1.0)), numbers(1, 37, 12)
    alone = branchformer(FixedAverage(mlp_weight=1.0))
    params = variables(model, features)
    inside = flatten_dict(params, sep="/")
    subset = {path: inside[path] for path in flatten_dict(shapes(alone, features), sep="/")}
    wanted = call(jax.jit(alone.apply), unflatten_dict(subset, sep="/"), features)
    rngs = {"dropout": jax.random.key(0)}
    trained = call(jax.jit(lambda *args: model.apply(*args, train=True, rngs=rngs)), params, features)
    np.testing.assert_allclose(trained, wanted, rtol=1e-5, atol=1e-6)
    assert np.abs(call(jax.jit(model.apply), params, features) - wanted).max() > 1e-2


@pytest.mark.parametrize(("weight", "absent"), [(0.0, "mlp"), (1.0, "attention")])
def test_a_branch_without_weight_has_no_parameters(weight: float, absent: str) -> None:
    block = shapes(branchformer(FixedAverage(mlp_weight=weight)), numbers(1, 16, 12))["params"]["layers"]["block"]
    names = {"attention", "norm_attention", "mlp", "norm_mlp", "merged", "norm_merged"}
    assert set(block) == names - {absent, f"norm_{absent}"}


def test_tokens_of_espnet_before_padding() -> None:
    """A token is there if the first frame that it sees is: 10 of 40 frames, of which 9 see no padding."""
    frames = jnp.asarray([40, 61, 62])
    assert UnmaskedSubsampling().length(frames).tolist() == [10, 16, 16]
    assert ImageSubsampling(zeros=0).length(frames).tolist() == [9, 14, 14]


def test_a_prompt_and_cross_attention_are_refused() -> None:
    with pytest.raises(UserError, match=r"config\.model\.adapter"):
        variables(branchformer(FixedAverage(), adapter=Prompt()), numbers(1, 8, 12))
    decoder = EncoderDecoder(vocab=5, width=8, depth=1, heads=2, block=BranchformerBlock())
    tokens = np.ones((1, 3), np.int32)
    with pytest.raises(UserError, match=r"config\.model\.block: expected PreNorm\(\) or PostNorm\(\) with cross"):
        variables(decoder, tokens, source_tokens=tokens)
