"""Prompts and prefixes are what their papers' formulas say: further tokens, or keys and values, that all texts see."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax.core import meta
from jax.nn import softmax

from txjax.axes import axes_of
from txjax.decoding.generator import Cached
from txjax.models.text.decoder import Decoder
from txjax.models.text.decoder.decoder import gpt
from txjax.models.text.encoder_decoder.encoder_decoder import t5
from txjax.models.transformer_stack import TransformerStack
from txjax.nn import (
    Alibi,
    Attention,
    KernelInit,
    LayerContext,
    Mask,
    NoPositions,
    Positions,
    PostNorm,
    Rotary,
    StackInputs,
    T5Relative,
)
from txjax.nn.adapters import DeepPrompt, MLPPrefix, Prefix, Prompt, merge
from txjax.nn.adapters.interceptor import adapter_applied
from txjax.parametrization import MuP, scaling_by_path

from helpers.arrays import numbers, shapes, variables

P, V, B, L, D = 3, 10, 4, 6, 8
TOKENS = jnp.asarray(np.random.default_rng(0).integers(0, V - P, (B, L)), jnp.int32)
X = jnp.asarray(numbers(B, L, D))
SIZES: dict[str, Any] = {"width": D, "depth": 2, "heads": 2}
PACKED = jnp.asarray([[1, 1, 1, 2, 2, 2], [1, 1, 1, 1, 0, 0], [1, 1, 2, 0, 0, 0], [1, 1, 1, 1, 1, 1]], jnp.int32)
ADAPTERS = {
    "prompt": Prompt(length=P, first_position=2),
    "deep": DeepPrompt(length=P),
    "source": Prompt(paths="encoder/.*", length=P),
    "prefix": Prefix(length=P),
    "mlp": MLPPrefix(length=P, hidden=5, first_position=P),
}
LATER = [("decoder", name) for name in ("deep", "prefix", "mlp")] + [("encoder_decoder", name) for name in ADAPTERS]
CONTINUED = [("decoder", "prompt"), *(pytest.param(*case, marks=pytest.mark.slow) for case in LATER)]


def ready(module: Any, *args: Any, **kwargs: Any) -> Any:
    return jax.tree.map(jnp.asarray, variables(module, *args, **kwargs))


def counted(first: int, last: int) -> Any:
    return jnp.arange(first, last, dtype=jnp.int32)[None]


def without(params: dict[str, Any], name: str) -> dict[str, Any]:
    return {key: tree for key, tree in params.items() if key != name}


def after(rows: jax.Array, x: jax.Array) -> jax.Array:
    return jnp.concatenate([jnp.broadcast_to(rows, (len(x), *rows.shape)), x], 1)


@pytest.mark.slow
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("positions", [NoPositions(), Rotary(), T5Relative(buckets=8), Alibi()])
def test_a_prompt_is_tokens_before_the_first_that_all_segments_see(positions: Positions, causal: bool) -> None:
    plain = TransformerStack(**SIZES, positions=positions)
    model = plain.clone(adapter=Prompt(length=P))
    inputs = StackInputs(counted(0, L), counted(0, L), Mask.within(PACKED, causal))
    params = ready(model, X, inputs)["params"]
    segments = np.pad(PACKED, ((0, 0), (P, 0)), constant_values=1)
    seen = (segments[:, :, None] == segments[:, None]) | (np.arange(P + L) < P)
    seen &= np.tri(P + L, dtype=bool) | (not causal)
    whole = StackInputs(counted(-P, L), counted(-P, L), Mask(causal, allowed=jnp.asarray(seen[:, None])))
    rows, own = params["prompt"]["tokens"], {"params": without(params, "prompt")}

    @jax.jit
    def both() -> Any:
        return model.apply({"params": params}, X, inputs), plain.apply(own, after(rows, X), whole)[:, P:]

    np.testing.assert_allclose(*both(), atol=1e-5)


def test_deep_prompts_replace_the_outputs_of_the_last_layers() -> None:
    sizes: dict[str, Any] = {**SIZES, "block": PostNorm()}
    model, inputs = TransformerStack(**sizes, adapter=DeepPrompt(length=P)), StackInputs(counted(0, L), counted(0, L))
    params = ready(model, X, inputs)["params"]
    block = dict(params["layers"]["block"])
    prompts, one = block.pop("prompt")["tokens"], TransformerStack(**{**sizes, "depth": 1})
    whole = StackInputs(counted(0, P + L), counted(0, P + L))

    def layer(i: int, x: jax.Array) -> jax.Array:
        own = {"layers": {"block": jax.tree.map(lambda a: a[i : i + 1], block)}}
        return one.apply({"params": own}, after(prompts[i], x), whole)[:, P:]

    @jax.jit
    def both() -> Any:
        return model.apply({"params": params}, X, inputs), layer(1, layer(0, X))

    np.testing.assert_allclose(*both(), atol=1e-5)


def test_a_prefix_is_keys_and_values_before_all_others() -> None:
    """The softmax over both, under masks and biases, where key heads are shared."""
    attention = Attention(heads=2, kv_heads=1, kernel_init=KernelInit(), use_bias=False)
    bias = jnp.asarray(numbers(1, 2, L, L))
    context = LayerContext(Mask.within(PACKED, causal=True), bias)
    with adapter_applied(Prefix(paths=".*", length=P)):
        params = ready(attention, X, context)["params"]
        got = jax.jit(lambda: attention.apply({"params": params}, X, context))()

    def project(name: str) -> Any:
        return jnp.einsum("bld,dhk->blhk", X, params[name]["kernel"])

    key, value = (after(params["prefix"][name], project(name)) for name in ("key", "value"))
    scores = np.array(jnp.einsum("blhk,bsgk->bhls", project("query"), key)) / 2
    scores[..., P:] += bias
    allowed = np.pad(context.mask.dense(L, L), ((0, 0), (0, 0), (0, 0), (P, 0)), constant_values=True)
    seen = jnp.einsum("bhls,bsgk->blhk", softmax(jnp.where(allowed, scores, -np.inf)), value)
    np.testing.assert_allclose(got, jnp.einsum("blhk,hkd->bld", seen, params["out"]["kernel"]), atol=1e-5)


def test_a_text_may_begin_later() -> None:
    """With `first_position`, a prompt in front of learned positions is the one of peft: tokens like any others."""
    plain = gpt(vocab=V, **SIZES, max_length=L + P)
    model = plain.clone(adapter=Prompt(length=P, first_position=P))
    params = ready(model, TOKENS)["params"]
    embed, positions = params["embed"]["embedding"], params["positions"]["table"]["embedding"]
    own = {**params, "embed": {"embedding": embed.at[V - P :].set(params["prompt"]["tokens"] - positions[:P])}}
    tokens = jnp.concatenate([jnp.repeat(counted(V - P, V), B, 0), TOKENS], 1)

    @jax.jit
    def both() -> Any:
        wanted = plain.apply({"params": without(own, "prompt")}, tokens)
        return model.apply({"params": own}, TOKENS).dense(), wanted.dense()[:, P:]

    got, wanted = both()
    last = slice(0, V - P)  # the head is tied to the table, whose last rows are the prompt's
    np.testing.assert_allclose(got[..., last], wanted[..., last], atol=1e-5)


@pytest.mark.slow
def test_a_decoder_attends_to_the_prompt_of_its_source() -> None:
    """As in Lester et al. 2021, 3: the whole model reads [prompt; source]; other pairs of a row do, too."""
    plain = t5(vocab=V, **SIZES)
    model = plain.clone(adapter=ADAPTERS["source"])
    params = ready(model, TOKENS, TOKENS)["params"]
    rows, encoder = params["encoder"]["prompt"]["tokens"], without(params["encoder"], "prompt")
    own = {**params, "encoder": encoder, "embed": {"embedding": params["embed"]["embedding"].at[V - P :].set(rows)}}
    source = jnp.concatenate([jnp.repeat(counted(V - P, V), B, 0), TOKENS], 1)
    first = (PACKED == 1).astype(jnp.int32)  # one pair a row, then padding

    @jax.jit
    def both() -> Any:
        segments = {"segments": first, "source_segments": first}
        got = model.apply({"params": params}, TOKENS, TOKENS, **segments).dense()
        segments["source_segments"] = after(jnp.ones(P, jnp.int32), first)
        return got, plain.apply({"params": own}, TOKENS, source, **segments).dense()

    got, wanted = (x[np.asarray(first, bool)][:, : V - P] for x in both())
    np.testing.assert_allclose(got, wanted, atol=1e-5)


@pytest.mark.parametrize(("kind", "name"), CONTINUED)
def test_texts_are_continued_after_them(kind: str, name: str) -> None:
    """Token by token with a cache, and after padding on the left: the logits of the whole text."""
    sizes: dict[str, Any] = {"vocab": V, **SIZES, "adapter": ADAPTERS[name]}
    others = {} if kind == "decoder" else {"source_tokens": TOKENS[:, :4]}
    model = gpt(**sizes, max_length=16) if kind == "decoder" else t5(**sizes)
    params = ready(model, tokens=TOKENS, **others)
    real = jnp.asarray([[0, 1, 1]] * B, jnp.int32)
    begin = {
        "tokens": jnp.pad(TOKENS[:, :2], ((0, 0), (1, 0))),
        "segments": real,
        "positions": real.cumsum(1) * real - real,
    }

    @jax.jit
    def run(params: Any) -> Any:
        generator, inputs = Cached(model), begin | others
        prepared = generator.prepare(params, inputs)
        logits, state = generator.start(prepared, inputs, L - 2)
        steps = [logits]
        for i in range(2, L):
            logits, state = generator.step(prepared, state, TOKENS[:, i])
            steps.append(logits)
        return jnp.stack(steps, 1), model.apply(params, tokens=TOKENS, **others).dense()[:, 1:]

    np.testing.assert_allclose(*run(params), rtol=1e-4, atol=1e-5)


def test_the_mlp_of_a_prefix_is_dropped_by_merging() -> None:
    scaled: dict[str, Any] = {"kv_heads": 1, "parametrization": MuP(base_width=2, base_head_size=2)}
    model = Decoder(vocab=V, **SIZES, **scaled, adapter=ADAPTERS["mlp"])
    params = ready(model, TOKENS)["params"]
    boxed = jax.eval_shape(lambda: model.init(jax.random.key(0), TOKENS))["params"]
    axes = jax.tree.map(axes_of, boxed, is_leaf=lambda node: isinstance(node, meta.AxisMetadata))
    rest, plain = merge(model.adapter, params, axes, scaling_by_path(model.scalings()))
    assert rest == Prefix(length=P, first_position=P)
    short = model.clone(adapter=rest)
    assert jax.tree.map(jnp.shape, plain) == jax.tree.map(jnp.shape, shapes(short, TOKENS)["params"])
    got, wanted = (made.apply({"params": own}, TOKENS).dense() for made, own in ((short, plain), (model, params)))
    np.testing.assert_allclose(got, wanted, atol=1e-5)
