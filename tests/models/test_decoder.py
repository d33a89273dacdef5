"""The decoder: causal, packed, cached, in two dtypes, on a mesh."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from txjax import sharding
from txjax.decoding import empty_cache
from txjax.models.text.decoder import Decoder, gpt, llama
from txjax.models.text.decoder.card import gpt1, gpt2
from txjax.nn import Alibi, Attention, Learned, Positions, RMSNorm, Rotary, Sinusoidal, Stack, T5Relative
from txjax.types import UserError

from helpers.arrays import call, dense, forward, parameter_count, shapes, variables

V, L = 11, 6
TOKENS = np.random.default_rng(0).integers(0, V, (2, L)).astype(np.int32)


def decoder(**fields: object) -> Decoder:
    return Decoder(**{"vocab": V, "width": 8, "depth": 2, "heads": 4, "kv_heads": 2, **fields})


def test_no_token_sees_a_later_one() -> None:
    model = decoder()
    params, apply = variables(model, TOKENS), forward(model)
    changed = TOKENS.copy()
    changed[:, 4:] = (changed[:, 4:] + 1) % V
    before, after = apply(params, TOKENS), apply(params, changed)
    np.testing.assert_array_equal(before[:, :4], after[:, :4])
    assert not np.allclose(before[:, 4:], after[:, 4:])


@pytest.mark.parametrize("positions", [Rotary(), Learned(max_length=L), Alibi()])
def test_packed_documents_equal_separate_ones(positions: Positions) -> None:
    model = decoder(positions=positions)
    segments = np.asarray([[1, 1, 1, 2, 2, 2]], np.int32)
    indices = np.asarray([[0, 1, 2, 0, 1, 2]], np.int32)
    params, apply = variables(model, TOKENS), forward(model)
    packed = apply(params, TOKENS[:1], segments, indices)
    np.testing.assert_allclose(packed[:, :3], apply(params, TOKENS[:1, :3]), atol=1e-5)
    np.testing.assert_allclose(packed[:, 3:], apply(params, TOKENS[:1, 3:]), atol=1e-5)


@pytest.mark.parametrize("positions", [Rotary(), Learned(max_length=L), Sinusoidal(), Alibi(), T5Relative()])
def test_cached_steps_give_the_logits_of_the_whole(positions: Positions) -> None:
    model = decoder(positions=positions)
    params = variables(model, TOKENS)["params"]
    whole = forward(model)({"params": params}, TOKENS)
    cache = empty_cache(model, {"params": params}, {"tokens": TOKENS[:, :1]}, L - 1)
    step = jax.jit(lambda cache, tokens: model.apply({"params": params, "cache": cache}, tokens, mutable=["cache"]))
    pieces = []
    for piece in (TOKENS[:, :3], *(TOKENS[:, i : i + 1] for i in range(3, L))):
        logits, state = step(cache, piece)
        cache = state["cache"]
        pieces.append(logits.dense())
    np.testing.assert_allclose(jnp.concatenate(pieces, 1), whole, atol=1e-5)
    assert int(cache["index"]) == L


def test_prompts_of_different_lengths_are_padded_on_the_left() -> None:
    model = decoder()
    params = variables(model, TOKENS)["params"]
    padded = np.asarray([TOKENS[0, :4], [0, 0, *TOKENS[1, :2]]], np.int32)
    segments = np.asarray([[1, 1, 1, 1], [0, 0, 1, 1]], np.int32)
    indices = np.asarray([[0, 1, 2, 3], [0, 0, 0, 1]], np.int32)
    step = jax.jit(lambda cache, *args: model.apply({"params": params, "cache": cache}, *args, mutable=["cache"]))
    _, state = step(empty_cache(model, {"params": params}, {"tokens": padded}, 2), padded, segments, indices)
    following = np.asarray([[TOKENS[0, 4]], [TOKENS[1, 2]]])
    logits, _ = step(state["cache"], following)  # positions and segments continue each row's
    whole = forward(model)({"params": params}, TOKENS)
    np.testing.assert_allclose(logits[:, 0].dense(), [whole[0, 4], whole[1, 2]], atol=1e-5)


def test_initialisation_makes_no_cache() -> None:
    assert set(shapes(decoder(), TOKENS)) == {"params"}


def test_bfloat16_is_of_activations_alone() -> None:
    model = decoder(dtype="bfloat16")
    layout = shapes(model, TOKENS)
    assert {leaf.dtype for leaf in jax.tree.leaves(layout)} == {np.dtype("float32")}
    keys = empty_cache(model, layout, {"tokens": TOKENS}, 0)["layers"]["block"]["attention"]["keys"]
    assert keys.value.dtype == jnp.bfloat16 and keys.names == ("layers", "batch", "kv_heads", None, None)
    params = variables(model, TOKENS)
    logits = forward(model)(params, TOKENS)
    assert logits.dtype == jnp.float32
    exact = forward(decoder())(params, TOKENS)
    assert 0 < float(abs(logits - exact).max()) < 0.1 * float(abs(exact).max())


@pytest.mark.mesh
def test_a_mesh_changes_nothing() -> None:
    model, tokens = decoder(), jnp.tile(TOKENS, (2, 1))
    params = variables(model, tokens)
    alone = forward(model)(params, tokens)
    mesh = sharding.Mesh(data=1, fsdp=4, tensor=2, rules={"vocab": ()})
    with sharding.use_mesh(mesh) as built:
        boxed = jax.eval_shape(lambda: model.init(jax.random.key(0), tokens))
        names = jax.tree.map(lambda box: tuple(box.names), boxed, is_leaf=lambda box: hasattr(box, "names"))
        split = jax.device_put(params, sharding.shardings(names, shapes(model, tokens), mesh, built))
        np.testing.assert_allclose(forward(model)(split, tokens), alone, atol=1e-5)


def test_fields_may_change_after_construction() -> None:
    for model in (gpt(vocab=V, width=8, depth=1, heads=2), llama(vocab=V, width=8, depth=1, heads=2)):
        model.depth = 3
        model.width = 12
        model.kv_heads = 1
        model.norm = RMSNorm()
        model.mlp.hidden = 5
        model.stack.unroll = 3
        params = shapes(model, TOKENS)["params"]
        assert params["layers"]["block"]["mlp"]["up"]["kernel"].shape == (3, 12, 5)
        assert params["layers"]["block"]["attention"]["key"]["kernel"].shape == (3, 12, 1, 6)


def test_dropout_is_off_outside_training() -> None:
    model = decoder(dropout=0.5, mixer=Attention(dropout=0.5))
    params, rngs = variables(model, TOKENS), {"dropout": jax.random.key(1, impl="rbg")}
    noisy = jax.jit(lambda p: dense(call(model.apply, p, TOKENS, train=True, rngs=rngs)))(params)
    still = forward(decoder())(params, TOKENS)
    np.testing.assert_array_equal(forward(model)(params, TOKENS), still)
    assert not np.allclose(noisy, still)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"heads": 3}, r"config\.model\.heads: expected a divisor of the width 8, got 3"),
        ({"kv_heads": 3}, r"config\.model\.kv_heads: expected a divisor of the 4 heads, got 3"),
        ({"heads": 8, "kv_heads": 8}, r"config\.model\.heads: expected an even head size"),
        ({"positions": Learned(max_length=5)}, r"config\.model\.positions\.max_length: expected at least .* 6, got 5"),
        ({"mixer": Attention(heads=2)}, r"config\.model\.mixer\.heads"),
        ({"stack": Stack(depth=2)}, r"config\.model\.stack\.depth"),
    ],
)
def test_user_errors_name_the_field(fields: dict, message: str) -> None:
    with pytest.raises(UserError, match=message):
        shapes(decoder(**fields), TOKENS)


def test_published_sizes_are_values() -> None:
    assert gpt2("355M", dropout=0.1, vocab=50304).vocab == 50304
    with pytest.raises(UserError, match=r"size: expected one of 124M.*, got '356M'; did you mean 355M"):
        gpt2("356M")


@pytest.mark.slow
@pytest.mark.filterwarnings("default")  # the reference has warnings of its own
def test_the_reference_of_the_first_gpt_counts_the_same() -> None:
    """Its class has no table of names here."""
    torch, transformers = (pytest.importorskip(m, reason="txjax[parity]") for m in ("torch", "transformers"))
    with torch.device("meta"):
        theirs = transformers.OpenAIGPTLMHeadModel(transformers.OpenAIGPTConfig())
    theirs.tie_weights()
    assert sum(x.numel() for x in theirs.parameters()) == parameter_count(gpt1(), TOKENS) == 116_534_784
