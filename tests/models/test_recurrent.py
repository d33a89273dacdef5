"""The recurrent encoder-decoder: equal to the paper's formulas, exact under padding, decoded step by step."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from txjax.decoding import Beam, Cached, Recomputed
from txjax.flops import count
from txjax.models.text.recurrent import Additive, Maxout, RecurrentEncoderDecoder, luong
from txjax.models.text.recurrent.card import rnnsearch
from txjax.nn.adapters import DeepPrompt, LoRA, Prompt
from txjax.parametrization import CompleteP
from txjax.report.inspection.attention_maps import attention_maps
from txjax.types import UserError

from helpers.arrays import forward, on_jax, shapes, variables

pytestmark = pytest.mark.claim(
    "Models and objectives",
    "the recurrent encoder-decoder equals appendix A of its paper; padding is exact; it decodes step by step, beams "
    "too; its published size",
)

V, L, S = 11, 5, 7
SOURCE_V = 13


def ids(vocab: int, *shape: int, seed: int = 0) -> jax.Array:
    return jnp.asarray(np.random.default_rng(seed).integers(0, vocab, shape), jnp.int32)


TOKENS, SOURCE = ids(V, 2, L), ids(SOURCE_V, 2, S, seed=1)
LENGTHS = [7, 4]
REAL = jnp.asarray([[1] * S, [1] * 4 + [0] * (S - 4)], jnp.int32)
SIZES: dict[str, Any] = {"vocab": V, "source_vocab": SOURCE_V, "width": 6, "embed_width": 5}
MODELS = {
    "bahdanau": RecurrentEncoderDecoder(**SIZES, encoder_width=4, alignment=Additive(size=7), readout=Maxout(size=3)),
    "luong": luong(**SIZES, encoder_width=3),
}
every_model = pytest.mark.parametrize("name", MODELS)
GIVEN = {"source_tokens": SOURCE, "source_segments": REAL}


def drawn(name: str) -> Any:
    return variables(MODELS[name], TOKENS, SOURCE, REAL)


def sigma(x: np.ndarray) -> np.ndarray:
    return 1 / (1 + np.exp(-x))


def appendix_a(p: Any, x: np.ndarray, y: np.ndarray, prompt: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Logits and weights of one pair, as in Bahdanau et al. 2015, appendix A, line by line.

    The first `prompt` words of x are not attended to.
    """
    p = jax.tree.map(lambda leaf: np.asarray(leaf, np.float64), p)

    def unit(given: Any, own: Any, e: np.ndarray, s: np.ndarray, more: Any = (0, 0, 0)) -> np.ndarray:
        """A.1.1: W [M 3 n] of r, z (here negated) and the candidate; `more`: what the context adds to them."""
        w, u, c = given["kernel"], own["recurrent"]["kernel"], own["candidate"]["kernel"]
        r = sigma(e @ w[:, 0] + s @ u[:, 0] + more[0])
        z = sigma(e @ -w[:, 1] + s @ -u[:, 1] - more[1])
        new = np.tanh(e @ w[:, 2] + (r * s) @ c[:, 0] + more[2])
        return (1 - z) * s + z * new

    def states(name: str, order: np.ndarray) -> list[np.ndarray]:
        own, h, found = p["encoder"][name], np.zeros(4), []
        for word in order:
            h = unit(own["input"], own["steps"]["cell"], p["embed_source"]["embedding"][word], h)
            found.append(h)
        return found

    backward = states("backward", x[::-1])[::-1]
    h = np.concatenate([states("forward", x), backward], 1)[prompt:]
    steps, out = p["decoder"]["steps"], p["out"]
    align = steps["alignment"]
    s, logits, weights = np.tanh(backward[0] @ p["start"]["kernel"]), [], []
    for word in y:
        e = p["embed"]["embedding"][word]
        a = np.tanh(s @ align["query"]["kernel"] + h @ p["decoder"]["keys"]["kernel"]) @ align["scores"]["kernel"][:, 0]
        alpha = np.exp(a) / np.exp(a).sum()
        c = alpha @ h
        t = sum(
            v @ out[name]["kernel"].reshape(len(v), 6) for name, v in (("state", s), ("embedded", e), ("context", c))
        )
        logits.append(np.maximum(t[0::2], t[1::2]) @ p["head"]["linear"]["kernel"])
        weights.append(alpha)
        s = unit(p["decoder"]["input"], steps["cell"], e, s, np.einsum("c,cgn->gn", c, steps["context"]["kernel"]))
    return np.stack(logits), np.stack(weights)


def test_it_equals_the_paper() -> None:
    params, model = drawn("bahdanau"), MODELS["bahdanau"]
    logits = forward(model)(params, TOKENS, **GIVEN)
    (maps,) = attention_maps(model, params, {"tokens": TOKENS, **GIVEN}).values()
    assert maps.shape == (1, 2, 1, L, S)
    for row, length in enumerate(LENGTHS):
        want, weights = appendix_a(params["params"], np.asarray(SOURCE[row, :length]), np.asarray(TOKENS[row]))
        np.testing.assert_allclose(logits[row], want, atol=1e-5)
        np.testing.assert_allclose(maps[0, row, 0, :, :length], weights, atol=1e-5)


@pytest.mark.slow
@every_model
def test_padding_is_exact_and_decoding_step_by_step_equals_the_whole_pass(name: str) -> None:
    """Padding of the source on either side, of the target on the left."""
    params, model = drawn(name), MODELS[name]
    want = np.asarray(forward(model)(params, TOKENS, **GIVEN))
    alone = forward(model)(params, TOKENS[1:, :3], source_tokens=SOURCE[1:, :4])
    np.testing.assert_allclose(alone[0], want[1, :3], atol=1e-6)

    left = {"source_tokens": jnp.roll(SOURCE, 3, 1), "source_segments": jnp.roll(REAL, 3, 1)}
    moved = jnp.stack([jnp.pad(TOKENS[1], (2, 0)), jnp.pad(TOKENS[1, :3], (4, 0))])
    both = {key: x[jnp.array([1, 1])] for key, x in left.items()}
    segments = jnp.asarray([[0, 0, 1, 1, 1, 1, 1], [0, 0, 0, 0, 1, 1, 1]], jnp.int32)
    found = forward(model)(params, moved, **both, segments=segments)
    np.testing.assert_allclose(found[0, 2:], want[1], atol=1e-6)
    np.testing.assert_allclose(found[1, 4:], want[1, :3], atol=1e-6)

    cached = Cached(model)
    prompt = {"tokens": moved[1:, 3:6], "segments": segments[1:, 3:6]} | {key: x[1:] for key, x in both.items()}
    logits, state = cached.start(params, prompt, 3)
    rows = [logits]
    for token in TOKENS[1, 2:]:
        logits, state = cached.step(params, state, token[None])
        rows.append(logits)
    np.testing.assert_allclose(jnp.concatenate(rows), want[1, 1:], atol=1e-5)


def test_beam_search_reorders_the_state() -> None:
    """The texts and scores of a search that computes every token from the whole text."""
    params, model = jax.tree.map(lambda x: 2 * x, drawn("bahdanau")), MODELS["bahdanau"]
    inputs = {"tokens": TOKENS[:, :1], **GIVEN}
    search = Beam(size=3, end=(2,))
    found = [
        jax.jit(lambda v, i, g=generator: search.hypotheses(g, v, i, 4))(params, inputs)
        for generator in (Cached(model), Recomputed(model, 5))
    ]
    np.testing.assert_array_equal(found[0].tokens, found[1].tokens)
    np.testing.assert_allclose(found[0].scores, found[1].scores, atol=1e-4)
    assert len({tuple(text) for text in found[0].tokens[0].tolist()}) == 3


def test_a_decoded_token_costs_nothing_of_the_source_but_its_attention() -> None:
    """FLOPs of a step over two lengths of the source differ by scores, 2 A, and weighted values, 2 C, a token."""
    model = MODELS["bahdanau"]
    params = shapes(model, TOKENS, SOURCE)

    def step(length: int) -> int:
        def call(params: Any, cache: Any, **inputs: Any) -> Any:
            output, changed = model.apply({**params, "cache": cache}, **inputs, mutable=["cache"])
            return output.dense(), changed["cache"]

        source = jnp.zeros((2, length), jnp.int32)
        cache = jax.eval_shape(lambda p: call(p, {}, tokens=TOKENS, source_tokens=source), params)[1]
        return count(call, params, cache, tokens=TOKENS[:, :1])

    assert step(2 * S) - step(S) == 2 * S * (2 * 7 + 2 * 8)


def test_the_published_size() -> None:
    tree = shapes(rnnsearch(), TOKENS, SOURCE)["params"]
    assert sum(leaf.size for leaf in jax.tree.leaves(tree)) == 80_401_000


def test_adapters_reach_the_kernels_of_the_loops() -> None:
    model = MODELS["bahdanau"].clone(adapter=LoRA(rank=2, paths="decoder/.*(recurrent|query)"))
    steps = shapes(model, TOKENS, SOURCE)["params"]["decoder"]["steps"]
    assert "lora" in str(jax.tree.structure(steps["cell"]["recurrent"]))
    assert "lora" in str(jax.tree.structure(steps["alignment"]["query"]))


def test_a_prompt_is_words_before_the_source_that_the_encoder_alone_reads() -> None:
    """The same for `DeepPrompt`, since there is one layer; and token by token."""
    model = MODELS["bahdanau"].clone(adapter=Prompt(length=2))
    deep = model.clone(adapter=DeepPrompt(length=2))
    params = on_jax(variables(model, TOKENS, SOURCE, REAL))
    cached, begin = Cached(model), {"tokens": TOKENS[:, :2], **GIVEN}

    @jax.jit
    def outputs(params: Any) -> Any:
        logits, state = cached.start(params, begin, 1)
        steps = logits, cached.step(params, state, TOKENS[:, 2])[0]
        return *(made.apply(params, TOKENS, **GIVEN).dense() for made in (model, deep)), jnp.stack(steps, 1)

    logits, same, steps = outputs(params)
    np.testing.assert_array_equal(logits, same)
    np.testing.assert_allclose(steps, logits[:, 1:3], atol=1e-5)
    own, rows = params["params"], params["params"]["prompt"]["tokens"]
    own["embed_source"]["embedding"] = jnp.concatenate([own["embed_source"]["embedding"], rows])
    for row, length in enumerate(LENGTHS):
        words = np.asarray([SOURCE_V, SOURCE_V + 1, *SOURCE[row, :length]])
        want, _ = appendix_a(own, words, np.asarray(TOKENS[row]), prompt=2)
        np.testing.assert_allclose(logits[row], want, atol=1e-5)


def test_refusals() -> None:
    with pytest.raises(UserError, match=r"config\.objective: expected an objective that gives the model source_tokens"):
        shapes(MODELS["luong"], TOKENS)
    deep = MODELS["luong"].clone(parametrization=CompleteP(base_width=8, base_head_size=1, base_depth=2))
    with pytest.raises(UserError, match=r"config\.model\.parametrization: .*MuP\(\) or Standard\(\).*CompleteP"):
        shapes(deep, TOKENS, SOURCE)
