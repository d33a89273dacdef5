"""Every position encoding in an encoder, in a decoder and in an encoder-decoder; one program an encoding."""

import functools
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from txjax.models.text.bert import Bert
from txjax.models.text.decoder import Decoder
from txjax.models.text.encoder_decoder import EncoderDecoder
from txjax.nn import Alibi, Learned, NoPositions, Positions, Rotary, Sinusoidal, T5Relative
from txjax.types import UserError

from helpers.arrays import numbers, shapes, variables

pytestmark = pytest.mark.claim(
    "Models and objectives",
    "every position encoding in an encoder, a decoder and an encoder-decoder: what it sees of the order, directions "
    "of T5's buckets, decoding with a cache",
)

L, S, SHIFT, PADDING = 5, 7, 3, 2
SIZES: dict[str, Any] = {"vocab": 11, "width": 8, "depth": 1, "heads": 2, "head": None}
ENCODINGS: dict[str, Positions] = {
    "none": NoPositions(),
    "learned": Learned(max_length=L + SHIFT),
    "sinusoidal": Sinusoidal(),
    "rotary": Rotary(),
    "alibi": Alibi(),
    "t5": T5Relative(),
}
RELATIVE = {"none", "rotary", "alibi", "t5"}  # distances alone count
MODELS: dict[str, Any] = {"decoder": Decoder, "encoder": Bert, "both": EncoderDecoder}

TOKENS, SOURCE = np.asarray([3, 1, 4, 10, 5], np.int32), np.asarray([9, 2, 6, 5, 8], np.int32)
PLACES = np.arange(L, dtype=np.int32)
SWAPPED = np.asarray([1, 0, 2, 3, 4])
PLAIN, MOVED, OTHER, SOURCE_MOVED, SOURCE_OTHER = range(5)  # rows of the batches
ALONE = {"tokens": np.stack([TOKENS, TOKENS, TOKENS[SWAPPED]]), "positions": np.stack([PLACES, PLACES + SHIFT, PLACES])}
ENDS = np.pad(SOURCE, (0, PADDING))
SOURCES = np.stack([ENDS, ENDS, ENDS, np.pad(SOURCE, (PADDING, 0)), np.pad(SOURCE[SWAPPED], (0, PADDING))])
INPUTS: dict[str, dict[str, np.ndarray]] = {
    "decoder": ALONE,
    "encoder": ALONE,
    "both": {key: np.concatenate([x, x[:1], x[:1]]) for key, x in ALONE.items()}
    | {"source_tokens": SOURCES, "source_segments": (SOURCES > 0).astype(np.int32)},
}


class Seen(NamedTuple):
    """What one program returns.

    Attributes:
      features: of whole rows [B L D], by model.
      gradients: of the encoder-decoder's parameters.
      decoded: its features by a cache.
    """

    encoding: str
    features: dict[str, jax.Array]
    gradients: dict[str, Any]
    decoded: jax.Array


@pytest.fixture(params=[pytest.param(name, marks=() if name == "t5" else pytest.mark.slow) for name in ENCODINGS])
def seen(request: pytest.FixtureRequest) -> Seen:
    return run(request.param)


@functools.cache
def run(encoding: str) -> Seen:
    sizes = {**SIZES, "positions": ENCODINGS[encoding]}
    models = {name: kind(**sizes) for name, kind in MODELS.items()}
    weights = numbers(L, SIZES["width"])

    def features(name: str, params: Any, inputs: Any) -> jax.Array:
        return models[name].apply({"params": params}, **inputs[name]).features

    def loss(params: Any, inputs: Any) -> tuple[jax.Array, jax.Array]:
        whole = features("both", params, inputs)
        return jnp.sum(whole[PLAIN] * weights), whole

    def program(params: Any, inputs: Any) -> Any:
        gradients, whole = jax.grad(loss, has_aux=True)(params["both"], inputs)
        alone = {name: features(name, params[name], inputs) for name in ("decoder", "encoder")}
        return alone | {"both": whole}, gradients, decoded(models["both"], params["both"], inputs["both"])

    params = {name: variables(model, **INPUTS[name])["params"] for name, model in models.items()}
    quick = jax.jit(program, compiler_options={"xla_backend_optimization_level": 0})
    return Seen(encoding, *quick(params, INPUTS))


def decoded(model: EncoderDecoder, params: Any, inputs: dict[str, jax.Array]) -> jax.Array:
    """The features by a cache: of two tokens with the source, then of one at a time."""

    def call(cache: Any, **inputs: Any) -> tuple[Any, Any]:
        output, changed = model.apply({"params": params, "cache": cache}, **inputs, mutable=["cache"])
        return output.features, changed["cache"]

    whole = jax.eval_shape(lambda: call({}, **inputs)[1])
    first = {key: x[:, :2] if key in ("tokens", "positions") else x for key, x in inputs.items()}
    begun, cache = call(jax.tree.map(lambda x: jnp.zeros(x.shape, x.dtype), whole), **first)
    steps = jnp.expand_dims(inputs["tokens"][:, 2:].T, -1)
    _, rows = jax.lax.scan(lambda cache, tokens: call(cache, tokens=tokens)[::-1], cache, steps)
    return jnp.concatenate([begun, jnp.moveaxis(rows[:, :, 0], 0, 1)], 1)


def same(features: jax.Array, one: int, other: int) -> bool:
    return np.allclose(features[one], features[other], atol=1e-4)


@pytest.mark.slow
def test_each_can_be_trained(seen: Seen) -> None:
    assert all(np.isfinite(x).all() for x in jax.tree.leaves(seen.gradients))
    tables = [g for path, g in jax.tree.leaves_with_path(seen.gradients) if "positions" in jax.tree_util.keystr(path)]
    assert len(tables) == (2 if seen.encoding in ("learned", "t5") else 0)  # one a stack
    assert all(np.abs(table).max() > 1e-4 for table in tables)


def test_only_distances_count_where_positions_are_relative(seen: Seen) -> None:
    """For all tokens of a row of each model, and for a source whose padding is at its beginning."""
    found = {same(x, PLAIN, MOVED) for x in seen.features.values()} | {same(seen.features["both"], PLAIN, SOURCE_MOVED)}
    assert found == {seen.encoding in RELATIVE}


def test_an_encoder_without_positions_reads_a_set(seen: Seen) -> None:
    """Of its tokens, those that were not moved see the same; others of the target see the same source."""
    ordered = seen.encoding != "none"
    rest = seen.features["encoder"][:, 2:]
    assert same(rest, PLAIN, OTHER) != ordered
    assert same(seen.features["both"], PLAIN, SOURCE_OTHER) != ordered


def test_decoding_with_a_cache_equals_the_whole_pass(seen: Seen) -> None:
    np.testing.assert_allclose(seen.decoded, seen.features["both"], atol=1e-5)


def test_t5_has_buckets_of_both_directions_in_an_encoder_alone() -> None:
    """Each distance up to 4 has a bucket of its own; those of later keys are the second half, from 16 on."""

    used = {side: x["positions"]["table"] for side, x in run("t5").gradients.items() if side != "embed"}
    rows = {side: np.flatnonzero(np.abs(np.asarray(x)).max(1)).tolist() for side, x in used.items()}
    assert rows == {"decoder": [0, 1, 2, 3, 4], "encoder": [0, 1, 2, 3, 4, 17, 18, 19, 20]}


@pytest.mark.parametrize(("source", "target"), [(S, L), (L, S)])
def test_a_source_or_a_target_longer_than_learned_positions_is_an_error(source: int, target: int) -> None:
    model = EncoderDecoder(**SIZES, positions=Learned(max_length=S - 1))
    with pytest.raises(UserError, match=r"config\.model\.positions\.max_length: .* input's length of 7, got 6"):
        shapes(model, np.zeros((1, target), np.int32), np.zeros((1, source), np.int32))
