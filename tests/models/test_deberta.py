"""DeBERTa: scores against their equation, buckets of distances, and the enhanced mask decoder."""

import math
from collections.abc import Callable

import jax.numpy as jnp
import numpy as np
import pytest

from txjax.decoding import generator_for
from txjax.models.text.deberta import (
    Deberta,
    DisentangledAttention,
    MaskDecoder,
    RelativeEmbeddings,
    deberta_v3,
    log_bucket,
)
from txjax.models.text.deberta.card import deberta_v1
from txjax.models.text.deberta.card import deberta_v3 as published_v3
from txjax.models.text.decoder import Decoder
from txjax.nn import Attention, KernelInit, LayerContext, LayerNorm, Learned, Mask, NoPositions
from txjax.types import UserError

from helpers.arrays import call, forward, numbers, parameter_count, shapes, variables

pytestmark = pytest.mark.claim(
    "Models and objectives",
    "DeBERTa: scores against their equation, buckets, order; its mask decoder equals the reference's layer (needs "
    "torch and transformers)",
)

V = 11
L = 5
H = 2
K = 3
TOKENS = np.random.default_rng(0).integers(0, V, (2, L)).astype(np.int32)


def deberta(kind=Deberta, **fields: object) -> Deberta:
    sizes = {"vocab": V, "width": 8, "depth": 2, "heads": 2, "positions": RelativeEmbeddings(max_distance=8)}
    return kind(**{**sizes, "head": None, **fields})


@pytest.mark.parametrize("positions", ["own", "content"])
def test_the_scores_are_those_of_the_equation(positions: str) -> None:
    drawn = {"heads": H, "kernel_init": KernelInit()}
    attention = DisentangledAttention(positions=positions, **drawn)
    x, relative = numbers(2, L, H * K), numbers(1, 2 * L - 1, H * K, seed=1)
    segments = np.asarray([[1] * L, [1, 1, 1, 0, 0]], np.int32)
    context = LayerContext(mask=Mask.within(jnp.asarray(segments)), relative=jnp.asarray(relative))
    params = variables(attention, x, context)
    own = positions == "own"
    p = params["params"]

    def project(name: str, rows: np.ndarray) -> np.ndarray:
        return np.einsum("...d,dhk->...hk", rows, p[name]["kernel"]) + p[name]["bias"]

    query, key, value = (project(name, x) for name in ("query", "key", "value"))
    far = {name: project(f"position_{name}" if own else name, relative[0]) for name in ("query", "key")}
    want = np.zeros((2, L, H, K))
    for b, i, h in np.ndindex(2, L, H):
        keys = [j for j in range(L) if segments[b, i] == segments[b, j]]
        d = [i - j + L - 1 for j in keys]
        scores = np.asarray(
            [query[b, i, h] @ (key[b, j, h] + far["key"][n, h]) + key[b, j, h] @ far["query"][n, h]
             for j, n in zip(keys, d, strict=True)]
        ) / math.sqrt(3 * K)  # fmt: skip
        weights = np.exp(scores) / np.exp(scores).sum()
        want[b, i, h] = weights @ value[b, keys, h]
    out = np.einsum("blhk,hkd->bld", want, p["out"]["kernel"]) + p["out"]["bias"]
    np.testing.assert_allclose(call(attention.apply, params, x, context), out, atol=1e-4)


def test_a_distance_has_its_bucket() -> None:
    """Small ones one each; then so that the last but one distance has the last bucket; odd in the distance."""
    distances = np.arange(-511, 512)
    buckets = log_bucket(distances, 256, 512)
    np.testing.assert_array_equal(buckets, -buckets[::-1])
    near = np.abs(distances) <= 128
    np.testing.assert_array_equal(buckets[near], distances[near])
    assert buckets[-1] == 255 and buckets[512 + 128] == 129 and (np.diff(buckets) >= 0).all()
    assert len(set(buckets.tolist())) == 511


def test_order_is_in_the_distances_alone() -> None:
    """Another order gives other features; the same text later in the window gives the same."""
    model = deberta()
    params, apply = variables(model, TOKENS), forward(model)
    features = apply(params, TOKENS).features
    assert not np.allclose(features[:, ::-1], apply(params, TOKENS[:, ::-1]).features, atol=1e-3)
    segments = np.asarray([[0, 0, 1, 1, 1]] * 2, np.int32)
    later = apply(params, TOKENS[:, [3, 4, 0, 1, 2]], segments).features[:, 2:]
    sooner = apply(params, TOKENS, segments[:, ::-1]).features[:, :3]
    np.testing.assert_allclose(later, sooner, atol=1e-5)


def test_the_mask_decoder_adds_absolute_positions_and_has_no_layer_of_its_own() -> None:
    decoder = MaskDecoder(positions=Learned(max_length=L))
    model = deberta(mask_decoder=decoder)
    params = variables(model, TOKENS)
    p = params["params"]
    table = p["positions_absolute"]["table"]["embedding"]
    assert table.shape == (L, 8)
    assert set(p) - set(shapes(deberta(), TOKENS)["params"]) == {"positions_absolute"}
    # Without absolute positions, one step is a pass of the last layer as it is.
    once = deberta(mask_decoder=MaskDecoder(steps=1, positions=NoPositions()))
    plain = {"params": {name: tree for name, tree in p.items() if name != "positions_absolute"}}
    encoded = forward(deberta())(plain, TOKENS).features
    np.testing.assert_allclose(forward(once)(plain, TOKENS).features, encoded, atol=1e-5)
    assert not np.allclose(forward(model)(params, TOKENS).features, encoded, atol=1e-3)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"positions": NoPositions()}, r"config.model.positions: expected RelativeEmbeddings\(\)"),
        ({"kv_heads": 1}, "config.model.kv_heads: expected None"),
        ({"positions": RelativeEmbeddings(max_distance=8, buckets=16)}, "max_distance: expected more than half"),
        ({"mixer": Attention()}, r"config.model.mixer: expected DisentangledAttention\(\), .*got 'Attention'"),
        (
            {"mask_decoder": MaskDecoder(positions=Learned(max_length=L - 1))},
            r"config.model.mask_decoder.positions.max_length: expected at least",
        ),
    ],
)
def test_parts_that_do_not_fit_are_named(fields: dict, message: str) -> None:
    with pytest.raises(UserError, match=message):
        shapes(deberta(**fields), TOKENS)


def test_it_has_no_cache_and_says_so() -> None:
    attention, positions = DisentangledAttention(), RelativeEmbeddings(max_distance=4)
    model = Decoder(vocab=11, width=8, depth=1, heads=2, mixer=attention, positions=positions)
    params = shapes(model, TOKENS)
    with pytest.raises(UserError, match=r"config.model.mixer: expected attention with a cache, .*got 'Disent"):
        generator_for(model, params, {"tokens": TOKENS}, L)


@pytest.mark.slow
@pytest.mark.filterwarnings("default")
def test_the_mask_decoder_equals_the_reference(tmp_path) -> None:
    """Its last layer, whose queries are not its keys."""
    torch, transformers = (pytest.importorskip(m, reason="txjax[parity]") for m in ("torch", "transformers"))
    from txjax.interop import huggingface

    options = {"relative_attention": True, "pos_att_type": ["c2p", "p2c"], "position_biased_input": False}
    v3 = {"position_buckets": 6, "share_att_key": True, "norm_rel_ebd": "layer_norm", "max_position_embeddings": 40}
    sizes = {"vocab_size": V, "hidden_size": 24, "num_hidden_layers": 3, "num_attention_heads": 3}
    theirs = transformers.DebertaV2Model(
        transformers.DebertaV2Config(**options, **v3, **sizes, intermediate_size=31, type_vocab_size=0)
    ).eval()
    with torch.no_grad():
        for parameter in theirs.parameters():
            parameter.copy_(0.1 + 0.3 * torch.randn(parameter.shape, generator=torch.Generator().manual_seed(3)))
    theirs.save_pretrained(tmp_path)
    ours, params = huggingface.load(tmp_path)
    tokens, absolute = np.random.default_rng(2).integers(0, V, (2, 17)).astype(np.int32), numbers(17, 24)
    mask, encoder = torch.ones(2, 17), theirs.encoder
    with torch.no_grad():
        before = theirs(torch.from_numpy(tokens).long(), mask, output_hidden_states=True).hidden_states[-2]
        relative = {"relative_pos": encoder.get_rel_pos(before), "rel_embeddings": encoder.get_rel_embedding()}
        query = before + torch.from_numpy(absolute)
        for _ in range(2):
            query = encoder.layer[-1](before, encoder.get_attention_mask(mask), query_states=query, **relative)[0]
    params["params"]["positions_absolute"] = {"table": {"embedding": absolute}}
    model = ours.clone(mask_decoder=MaskDecoder(positions=Learned(max_length=17)))
    np.testing.assert_allclose(forward(model)(params, tokens).features, query.numpy(), atol=2e-4)


def test_version_3_projects_distances_as_tokens() -> None:
    fields = {"positions": RelativeEmbeddings(max_distance=8, buckets=4, norm=LayerNorm(eps=1e-7))}
    block = shapes(deberta(deberta_v3, **fields), TOKENS)["params"]["layers"]["block"]
    assert set(block["attention"]) == {"query", "key", "value", "out"}
    assert set(shapes(deberta(), TOKENS)["params"]["layers"]["block"]["attention"]["query"]) == {"kernel", "bias"}
    assert "bias" not in shapes(deberta(), TOKENS)["params"]["layers"]["block"]["attention"]["position_key"]


@pytest.mark.parametrize(
    ("build", "size", "parameters"),
    [
        (deberta_v1, "base", 138_601_728),
        (deberta_v1, "large", 405_163_008),
        (deberta_v1, "xlarge", 757_804_032),
        (published_v3, "xsmall", 70_682_112),
        (published_v3, "small", 141_304_320),
        (published_v3, "base", 183_831_552),
        (published_v3, "large", 434_012_160),
    ],
)
def test_encoders_alone_are_counted(build: Callable[..., Deberta], size: str, parameters: int) -> None:
    assert parameter_count(build(size, head=None), TOKENS) == parameters
