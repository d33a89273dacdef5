"""Generators: inputs beside the text, cost of a token, and decoding on a mesh."""

import re

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from txjax import flops, sharding
from txjax.decoding import Beam, Cached, Recomputed, Sampling, generator_for
from txjax.models.text.decoder import Decoder
from txjax.nn import Logits, cached
from txjax.types import UserError

from helpers.arrays import numbers, shapes, variables

pytestmark = pytest.mark.claim(
    "Generation",
    "inputs of the first call only; the FLOPs of a decoded token; eight devices give the tokens of one, and none has "
    "the whole cache",
)

KEY = jax.random.key(0)


class Captions(nn.Module):
    """Logits of the next token, from the sum of the tokens so far and of an image that only the first call has."""

    axes: tuple[str | None, ...] = ("batch",)

    @nn.compact
    def __call__(self, tokens, image=None, train=False):
        total = jnp.cumsum(nn.Embed(7, 8)(tokens), axis=1)
        shown = (
            0.0 if image is None else nn.Dense(8, use_bias=False, name="look")(image.reshape(len(image), -1))[:, None]
        )
        if self.is_mutable_collection("cache") and not self.is_initializing():
            before = cached(self, "sum", total[:, 0], *self.axes)
            total = total + shown + before.value[:, None]
            before.value = total[:, -1]
        else:
            total = total + shown
        return Logits.of(nn.Dense(7, use_bias=False)(jnp.tanh(total)))


def inputs(size: int = 4, seed: int = 0) -> dict[str, np.ndarray]:
    return {"tokens": np.array([[1, 2], [3, 4]], np.int32), "image": numbers(2, size, size, seed=seed)}


def test_other_inputs_are_in_the_first_call_only() -> None:
    model = Captions()
    params = variables(model, **inputs())
    assert isinstance(generator_for(model, params, inputs(), 9), Cached)
    beam = Beam(3, end=(5,))

    def found(generator, given):
        return jax.device_get(jax.jit(lambda v, i: beam.hypotheses(generator, v, i, 6))(params, given))

    once, again = found(Cached(model), inputs()), found(Recomputed(model, 9), inputs())
    np.testing.assert_array_equal(once.tokens, again.tokens)
    np.testing.assert_allclose(once.scores, again.scores, rtol=1e-5)
    assert (once.tokens != found(Cached(model), inputs(seed=1)).tokens).any()


def test_a_beam_needs_the_name_of_the_batch_axis() -> None:
    class Nameless(nn.Module):
        @nn.compact
        def __call__(self, tokens, train=False):
            if self.is_mutable_collection("cache") and not self.is_initializing():
                self.variable("cache", "sum", jnp.zeros, (len(tokens), 8))
            return nn.Embed(7, 7)(tokens)

    tokens = {"tokens": jnp.zeros((2, 2), jnp.int32)}
    params = variables(Nameless(), **tokens)
    for search in (Sampling(), Beam(2)):
        program = jax.eval_shape
        if isinstance(search, Beam):
            with pytest.raises(UserError, match="the cache of Nameless: expected an axis named batch, got 'sum'"):
                program(lambda v, search=search: search(Cached(Nameless()), v, tokens, 3, KEY), params)
        else:
            program(lambda v, search=search: search(Cached(Nameless()), v, tokens, 3, KEY), params)


def test_of_what_was_prefilled_only_attention_costs() -> None:
    heads, head, depth = 2, 8, 3
    model = Decoder(vocab=17, width=16, depth=depth, heads=heads)

    def cost(generator, given):
        params = shapes(generator.model, **given)
        given = {name: jax.ShapeDtypeStruct(x.shape, x.dtype) for name, x in given.items()}
        _, state = jax.eval_shape(lambda v, i: generator.start(v, i, 8), params, given)
        token = jax.ShapeDtypeStruct((2,), jnp.int32)
        return flops.count(generator.step, params, state, token)

    short, long = (cost(Cached(model), {"tokens": np.zeros((2, n), np.int32)}) for n in (8, 24))
    assert long - short == 2 * depth * 2 * 2 * heads * head * (24 - 8)  # rows, layers, products, a multiply and an add
    assert cost(Cached(Captions()), inputs(4)) == cost(Cached(Captions()), inputs(16))


@pytest.mark.mesh
def test_eight_devices_give_the_tokens_of_one_with_a_sharded_cache() -> None:
    model = Decoder(vocab=16, width=16, depth=1, heads=4, kv_heads=2)
    given = {"tokens": np.random.default_rng(0).integers(0, 16, (4, 3)).astype(np.int32)}
    params, generator = variables(model, given["tokens"]), Cached(model)

    def decode(variables, inputs):
        sampled = Sampling(temperature=0.7)(generator, variables, inputs, 6, KEY)
        return sampled, Beam(3, end=(5,)).hypotheses(generator, variables, inputs, 6)

    alone = jax.jit(decode)(params, given)
    mesh = sharding.Mesh(data=2, fsdp=2, tensor=2)
    with sharding.use_mesh(mesh) as built:
        boxed = jax.eval_shape(lambda: model.init(KEY, jnp.asarray(given["tokens"])))
        names = jax.tree.map(lambda box: tuple(box.names), boxed, is_leaf=lambda box: hasattr(box, "names"))
        split = jax.device_put(params, sharding.shardings(names, shapes(model, given["tokens"]), mesh, built))
        program = jax.jit(decode).lower(split, given).compile()
    sampled, found = program(split, given)
    np.testing.assert_array_equal(sampled, alone[0])
    np.testing.assert_array_equal(found.tokens, alone[1].tokens)
    np.testing.assert_allclose(found.scores, alone[1].scores, rtol=1e-5)
    caches = set(re.findall(r"f32\[(?:1,)?(\d+),(\d),9,4\]", program.as_text()))
    assert caches == {("1", "1"), ("3", "1")}  # of the 4 rows and the 12 of the beams a quarter, of the heads a half
