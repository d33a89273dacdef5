"""Linear, Embed and the heads against numpy, and the dtypes and initialisation of their parameters."""

import jax
import jax.numpy as jnp
import numpy as np
from flax.core import meta

from txjax.nn import GPT2, Embed, Encoded, Init, Linear, Normal, ScaledEmbed, Tied, TiedBias, Untied, UntiedBias, Xavier
from txjax.parametrization import Scaling

from helpers.arrays import Headed, call, numbers, variables

KEY = jax.random.key(0, impl="rbg")  # compiles at once


def test_linear_contracts_trailing_dimensions() -> None:
    x = numbers(2, 3, 4, 5)
    linear = Linear((6, 7), ("a", "b"), in_axes=("c", "d"))
    boxed = jax.eval_shape(linear.init, KEY, x)["params"]
    assert boxed["kernel"].names == ("c", "d", "a", "b") and boxed["bias"].names == ("a", "b")
    params = variables(linear, x)
    y = call(linear.apply, params, x)
    kernel, bias = params["params"]["kernel"], params["params"]["bias"]
    np.testing.assert_allclose(y, np.einsum("blcd,cdfg->blfg", x, kernel) + bias, rtol=1e-5, atol=1e-5)


def test_linear_keeps_its_input_dtype_and_float32_parameters() -> None:
    x = jnp.ones((2, 4), jnp.bfloat16)
    linear = Linear((3,), ("a",))
    params = variables(linear, x)
    assert {p.dtype for p in jax.tree.leaves(params)} == {np.dtype("float32")}
    assert linear.apply(params, x).dtype == jnp.bfloat16
    assert linear.apply(params, x, jnp.float32).dtype == jnp.float32


def test_gradients_of_kernels_wider_and_narrower_than_their_inputs() -> None:
    for inputs, features in (((3, 8), (5,)), ((5,), (3, 8)), ((6,), (6,))):
        linear = Linear(features, ("a", "b")[: len(features)], in_axes=("c", "d")[: len(inputs)], use_bias=False)
        x, gradient = numbers(2, 7, *inputs), numbers(2, 7, *features, seed=1)
        params = variables(linear, x)

        def product(params: dict, x: jax.Array, linear: Linear = linear, gradient: np.ndarray = gradient) -> jax.Array:
            return (linear.apply(params, x) * gradient).sum()

        of_params, of_x = call(jax.grad(product, (0, 1)), params, x)
        rows = gradient.reshape(14, -1)
        wanted = x.reshape(14, -1).T @ rows
        np.testing.assert_allclose(of_params["params"]["kernel"].reshape(wanted.shape), wanted, rtol=1e-5, atol=1e-5)
        wanted = rows @ params["params"]["kernel"].reshape(-1, rows.shape[1]).T
        np.testing.assert_allclose(of_x.reshape(wanted.shape), wanted, rtol=1e-5, atol=1e-5)


def test_standard_deviations() -> None:
    assert Init().std(200, 300) == 200**-0.5
    assert Xavier().std(200, 300) == (2 / 500) ** 0.5
    assert Normal(stddev=0.03).std(200, 300) == GPT2(stddev=0.03).std(200, 300) == 0.03


def test_kernels_are_drawn_by_fan_in_and_scale() -> None:
    linear = Linear((30, 10), ("a", "b"), in_axes=("c", "d"), scale=2.0)
    params = meta.unbox(jax.jit(linear.init)(KEY, jnp.ones((1, 20, 10))))["params"]
    assert abs(float(params["kernel"].std()) / (2 * 200**-0.5) - 1) < 0.02
    assert not params["bias"].any()


def test_only_gpt2_shrinks_the_ends_of_branches() -> None:
    assert GPT2().residual_scale(16) == 1 / 4
    assert Normal().residual_scale(8) == Init().residual_scale(8) == Xavier().residual_scale(8) == 1


def test_scaled_rows_begin_at_a_deviation_of_one_and_follow_the_base_under_mup() -> None:
    """Vaswani et al. 2017, 3.4: rows of D^-1/2 times D^1/2; a model of twice its base's width has the base's."""
    ids = np.arange(500)[None]
    for scaling, width in ((Scaling(), 64), (Scaling(width=2.0), 32)):
        embed = ScaledEmbed(vocab=500, width=64, scaling=scaling)
        params = meta.unbox(jax.jit(embed.init)(KEY, ids))
        assert abs(float(params["params"]["embedding"].std()) / width**-0.5 - 1) < 0.02
        np.testing.assert_allclose(
            call(embed.apply, params, ids)[0], params["params"]["embedding"] * width**0.5, rtol=1e-6
        )


def test_embed_looks_up_and_heads_give_float32_logits() -> None:
    embed = Embed(vocab=5, width=4)
    ids = np.asarray([[4, 0, 2]])
    params = variables(embed, ids)
    table = params["params"]["embedding"]
    np.testing.assert_array_equal(call(embed.apply, params, ids), table[ids])
    assert call(embed.apply, params, ids, jnp.bfloat16).dtype == jnp.bfloat16

    x = numbers(1, 3, 4)
    encoded = Encoded(x, embedding=table)
    np.testing.assert_allclose(call(Headed(Tied()).apply, {}, encoded).dense(), x @ table.T, rtol=1e-5)
    biased = call(Headed(TiedBias()).apply, {"params": {"head": {"bias": np.arange(5.0)}}}, encoded).dense()
    np.testing.assert_allclose(biased, x @ table.T + np.arange(5), rtol=1e-5)
    kernel = numbers(4, 5)
    untied = call(Headed(Untied()).apply, {"params": {"head": {"linear": {"kernel": kernel}}}}, encoded).dense()
    np.testing.assert_allclose(untied, x @ kernel, rtol=1e-5)
    both = {"linear": {"kernel": kernel}, "bias": np.arange(5.0)}
    untied_biased = call(Headed(UntiedBias()).apply, {"params": {"head": both}}, encoded).dense()
    np.testing.assert_allclose(untied_biased, x @ kernel + np.arange(5), rtol=1e-5)
    half = Encoded(jnp.asarray(x, jnp.bfloat16), embedding=table)
    assert call(Headed(Tied()).apply, {}, half).dense().dtype == jnp.float32
