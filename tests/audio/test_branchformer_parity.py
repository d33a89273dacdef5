"""Branchformers equal ESPnet's own class, which reads padding, and its outputs for an utterance alone.

`data/branchformer.npz` has ESPnet's outputs for the parameters and features of this file. It is written by

    pip install --no-deps espnet==202511 typeguard
    PYTHONPATH=tests python tests/audio/test_branchformer_parity.py
"""

from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest
from flax.traverse_util import flatten_dict, unflatten_dict

from txjax.interop.huggingface.rules import (
    SAME,
    Rule,
    TensorLayout,
    gather,
    kernel,
    linear,
    norm,
    out_in,
    projections,
    scatter,
)
from txjax.models.audio.branchformer import (
    Branchformer,
    BranchformerBlock,
    Concatenation,
    ConvGatingMLP,
    FixedAverage,
    LearnedAverage,
    Merge,
    UnmaskedSubsampling,
)
from txjax.nn import Attention, Encoded
from txjax.nn.audio.subsampling import ImageSubsampling

from helpers.arrays import call, shapes

FIXTURE = Path(__file__).parent / "data" / "branchformer.npz"
LENGTHS = np.asarray([61, 40], np.int32)
MERGES: dict[str, Merge] = {
    "concat": Concatenation(),
    "learned_ave": LearnedAverage(),
    "fixed_ave": FixedAverage(mlp_weight=0.3),
    "attention_alone": FixedAverage(mlp_weight=0.0),
    "cgmlp_alone": FixedAverage(mlp_weight=1.0),
}
PROJECTIONS = {"query": "linear_q", "key": "linear_k", "value": "linear_v", "out": "linear_out"}
NORMS = {"norm_attention": "norm_mha", "norm_mlp": "norm_mlp", "norm_merged": "norm_final"}
LINEAR_LAYERS = {
    "mlp/down": "cgmlp.channel_proj2",
    "merged/out": "merge_proj",
    "merged/pool_mixer": "pooling_proj1",
    "merged/pool_mlp": "pooling_proj2",
    "merged/score_mixer": "weight_proj1",
    "merged/score_mlp": "weight_proj2",
}
PLUS_ONE = TensorLayout(lambda x: x + 1, lambda x, shape: x - 1)


def branchformer(merge: Merge, **fields: Any) -> Branchformer:
    """A model of 24 x 2 with 3 heads."""
    sizes: dict[str, Any] = {"width": 24, "depth": 2, "heads": 3, "scale_exponent": 0.5}
    subsampling = ImageSubsampling(channels=24, zeros=0)
    mlp, block = ConvGatingMLP(hidden=31, kernel=5), BranchformerBlock(merge=merge)
    return Branchformer(**sizes | {"subsampling": subsampling, "mlp": mlp, "block": block} | fields)


def features() -> np.ndarray:
    return np.random.RandomState(1).normal(size=(2, 61, 21)).astype(np.float32)


def parameters(merge: Merge) -> dict[str, np.ndarray]:
    """Ours by path: normal with deviation 0.3, around 1 for the scales of norms. RandomState never changes."""
    leaves = flatten_dict(shapes(branchformer(merge), features())["params"], sep="/")
    rng = np.random.RandomState(0)
    return {
        path: (path.endswith("scale") + 0.3 * rng.normal(size=leaves[path].shape)).astype(np.float32)
        for path in sorted(leaves)
    }


def outputs(model: Branchformer, merge: Merge) -> Encoded:
    """What the encoder gives for both utterances."""
    return call(jax.jit(model.apply), {"params": unflatten_dict(parameters(merge), sep="/")}, features(), LENGTHS)


def rules(paths: dict[str, Any]) -> list[Rule]:
    """ESPnet's names of the arrays of these paths, and their layouts."""
    theirs, ours = "encoders.{}", "layers/block"
    attention, mlp = f"{ours}/attention", f"{ours}/mlp"
    halves = [f"{mlp}/up", f"{mlp}/gate"]
    entries = [
        *linear("embed.conv.0", "stem/conv_0", kernel()),
        *linear("embed.conv.2", "stem/conv_1", kernel()),
        *linear("embed.out.0", "stem/out"),
        *norm("after_norm", "norm_final"),
        *projections(f"{theirs}.attn", attention, PROJECTIONS, Attention()),
        Rule(f"{theirs}.attn.linear_pos.weight", (f"{attention}/relative/kernel",), out_in()),
        Rule(f"{theirs}.attn.pos_bias_u", (f"{attention}/content_bias",), SAME),
        Rule(f"{theirs}.attn.pos_bias_v", (f"{attention}/position_bias",), SAME),
        Rule(f"{theirs}.cgmlp.channel_proj1.0.weight", tuple(f"{half}/kernel" for half in halves), SAME, out_in()),
        Rule(f"{theirs}.cgmlp.channel_proj1.0.bias", tuple(f"{half}/bias" for half in halves)),
        *norm(f"{theirs}.cgmlp.csgu.norm", f"{mlp}/norm_gate"),
        Rule(f"{theirs}.cgmlp.csgu.conv.weight", (f"{mlp}/depthwise/kernel",), kernel()),
        Rule(f"{theirs}.cgmlp.csgu.conv.bias", (f"{mlp}/depthwise/bias",), PLUS_ONE),
    ]
    for name, their_name in NORMS.items():
        entries += norm(f"{theirs}.{their_name}", f"{ours}/{name}")
    for name, their_name in LINEAR_LAYERS.items():
        entries += linear(f"{theirs}.{their_name}", f"{ours}/{name}")
    return [rule for rule in entries if set(rule.param_paths) <= set(paths)]


@pytest.mark.parametrize("name", MERGES)
def test_names_and_layouts_go_both_ways(name: str) -> None:
    ours = parameters(MERGES[name])
    back = gather(rules(ours), {path: x.shape for path, x in ours.items()}, scatter(rules(ours), ours))
    assert back.keys() == ours.keys()
    for path, x in ours.items():
        np.testing.assert_allclose(back[path], x, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("name", MERGES)
def test_a_batch_with_padding_equals_espnet(name: str) -> None:
    """The second utterance has 10 tokens there, and all tokens of padding are read."""
    model = branchformer(MERGES[name], subsampling=UnmaskedSubsampling(channels=24), reads_padding=True)
    encoded = outputs(model, MERGES[name])
    wanted = np.load(FIXTURE)
    np.testing.assert_array_equal(encoded.segments.sum(1), wanted[f"{name}/lengths"])
    for got, espnet, length in zip(encoded.features, wanted[f"{name}/batch"], wanted[f"{name}/lengths"], strict=True):
        np.testing.assert_allclose(got[:length], espnet[:length], rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("name", MERGES)
def test_what_is_padded_is_not_read_otherwise(name: str) -> None:
    """Each utterance of the batch has the outputs that ESPnet has for it alone."""
    encoded = outputs(branchformer(MERGES[name]), MERGES[name])
    wanted = np.load(FIXTURE)
    longest, short = wanted[f"{name}/batch"][0], wanted[f"{name}/alone"][0]
    np.testing.assert_array_equal(encoded.segments.sum(1), [14, 9])
    np.testing.assert_allclose(encoded.features[0], longest, rtol=1e-4, atol=1e-4)
    np.testing.assert_allclose(encoded.features[1, :9], short, rtol=1e-4, atol=1e-4)


def write_fixture() -> None:
    """Runs ESPnet."""
    import torch
    from espnet2.asr.encoder.branchformer_encoder import BranchformerEncoder

    fields = {"attention_heads": 3, "cgmlp_linear_units": 62, "cgmlp_conv_kernel": 5, "num_blocks": 2}
    arrays: dict[str, np.ndarray] = {}
    for name, merge in MERGES.items():
        method = {Concatenation: "concat", LearnedAverage: "learned_ave"}.get(type(merge), "fixed_ave")
        weight = getattr(merge, "mlp_weight", 0.5)
        encoder = BranchformerEncoder(21, 24, **fields, merge_method=method, cgmlp_weight=weight).eval()
        ours = parameters(merge)
        tensors = scatter(rules(ours), ours)
        encoder.load_state_dict({name: torch.tensor(np.ascontiguousarray(x.read())) for name, x in tensors.items()})
        x, length = torch.tensor(features()), torch.tensor(LENGTHS)
        with torch.no_grad():
            batch, lengths, _ = encoder(x, length)
            alone, _, _ = encoder(x[1:, : LENGTHS[1]], length[1:])
        arrays |= {f"{name}/batch": batch.numpy(), f"{name}/lengths": lengths.numpy(), f"{name}/alone": alone.numpy()}
    FIXTURE.parent.mkdir(exist_ok=True)
    np.savez_compressed(FIXTURE, **arrays)


if __name__ == "__main__":
    write_fixture()
