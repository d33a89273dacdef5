"""Rollout, distances and maps of windows against values computed by hand and loops over the tokens."""

import jax
import jax.numpy as jnp
import numpy as np

from txjax.models.text.decoder import Decoder
from txjax.nn import Attention, Grid, Stack, Windows
from txjax.report.inspection.attention_maps import attention_maps
from txjax.report.inspection.attention_measures import (
    grid_distance,
    grid_of,
    mean_distance,
    rollout,
    text_distance,
    whole_maps,
    window_distance,
)
from txjax.report.inspection.attention_sequences import attentions_of_call
from txjax.report.inspection.attention_summary import summary

from helpers.arrays import numbers, variables

A = np.asarray([[1.0, 0.0], [0.5, 0.5]], np.float32)
B = np.asarray([[0.2, 0.8], [1.0, 0.0]], np.float32)


def softmax(x: np.ndarray) -> np.ndarray:
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def test_rollout_by_hand() -> None:
    heads = np.stack([np.stack([A, A]), np.stack([B, A])])[:, None]  # layers 1 heads 2 2; the second layer's mean:
    second = np.asarray([[0.6, 0.4], [0.75, 0.25]])
    want = (second + np.eye(2)) / 2 @ ((A + np.eye(2)) / 2)
    np.testing.assert_allclose(want, [[0.85, 0.15], [0.53125, 0.46875]])
    np.testing.assert_allclose(rollout(jnp.asarray(heads))[0], want, rtol=1e-6)


def test_mean_distance_by_hand() -> None:
    distance, pairs = text_distance(None, 2)
    np.testing.assert_allclose(mean_distance(jnp.stack([A, B])[None], distance, pairs), [[0.25, 0.9]], rtol=1e-6)
    distance, pairs = text_distance(jnp.asarray([[1, 1, 0]]), 3)  # the last token is padding
    weights = np.pad(B, [(0, 1), (0, 1)])
    weights[2] = 1 / 3
    np.testing.assert_allclose(mean_distance(jnp.asarray(weights)[None, None], distance, pairs), [[0.9]], rtol=1e-6)


def test_distances_of_patches_leave_out_the_class_token() -> None:
    distance, counts = grid_distance(Grid(2, 3, 1), Grid(2, 3, 1))
    assert not counts[0].any() and not counts[:, 0].any() and counts[1:, 1:].all()
    assert distance[1, 3] == 2 and distance[1, 6] == np.float32(5**0.5)
    weights = jnp.full((1, 7, 7), 1 / 7)
    want = np.mean([np.hypot(i // 3 - j // 3, i % 3 - j % 3) for i in range(6) for j in range(6)])
    np.testing.assert_allclose(mean_distance(weights, distance, counts), [want], rtol=1e-6)


def test_keys_on_a_coarser_grid() -> None:
    distance, _ = grid_distance(Grid(2, 2), Grid(1, 1))
    np.testing.assert_allclose(distance, np.full((4, 1), 0.5**0.5), rtol=1e-6)


def test_windows_as_whole_maps() -> None:
    """Against the numbers of each window's tokens, cut from the grid by the same windows; the grid is padded."""
    grid, images, heads = Grid(3, 5), 2, 2
    tokens = [np.asarray(Windows(grid, 2, shift).tokens()) for shift in (0, 1)]
    assert {*tokens[0].ravel()} == {*range(15), -1}
    weights = softmax(numbers(2, images * 6, heads, 4, 4))
    whole = np.asarray(whole_maps(jnp.asarray(weights), jnp.asarray(np.stack(tokens)), 15))
    want = np.zeros((2, images, heads, 15, 15), np.float32)
    for layer, image, window in np.ndindex(2, images, 6):
        for i, j in np.ndindex(4, 4):
            query, key = tokens[layer][window, [i, j]]
            if query >= 0 and key >= 0:
                want[layer, image, :, query, key] = weights[layer, image * 6 + window, :, i, j]
    np.testing.assert_array_equal(whole, want)
    far, _ = grid_distance(grid, grid)
    inside, real = window_distance(jnp.asarray(tokens[0])[None], grid)
    parts = weights[0].reshape(1, images, 6, heads, 4, 4)
    sums = np.where(real[:, None], parts * np.asarray(inside)[:, None], 0).sum((0, 2, 4, 5))
    np.testing.assert_allclose(sums, (want[0] * np.asarray(far)).sum((2, 3)), rtol=1e-5)


def test_grids_by_the_number_of_tokens() -> None:
    assert grid_of(197, 224, 224) == Grid(14, 14, 1)
    assert grid_of(201, 224, 224) == Grid(14, 14, 5)
    assert grid_of(6, 10, 15) == Grid(2, 3, 0)
    assert grid_of(7, 10, 15) == Grid(2, 3, 1)
    assert grid_of(23, 224, 224, most=2) is None


def test_chosen_maps_of_layers_that_take_turns_and_are_recomputed() -> None:
    """Causal maps whose rows sum to 1, as `attention_maps` has them; the second kind sees two tokens."""
    turns = Attention(), Attention(window=2)
    model = Decoder(vocab=7, width=8, depth=4, heads=2, mixer=turns, stack=Stack(remat="full"))
    inputs = {"tokens": jnp.asarray([[1, 2, 3, 4, 5, 6]]), "segments": jnp.asarray([[1, 1, 1, 1, 1, 0]])}
    params = variables(model, **inputs)
    ((path, known),) = attentions_of_call(model, params, inputs).items()
    assert (path, known.layers, known.heads, known.keys.name) == ("layers/block/attention", 4, 2, "tokens")

    def both(params, inputs):
        kept = summary(model, params, inputs, {path: ((1, 2), (1,))}, {path: known})
        return kept[path], attention_maps(model, params, inputs)[path]

    kept, whole = jax.device_get(jax.jit(both)(params, inputs))
    np.testing.assert_array_equal(kept.weights, whole[1:3, :, 1:])
    np.testing.assert_allclose(whole.sum(-1), 1, rtol=1e-5)
    assert not np.triu(whole, 1)[..., :5, :].any()
    assert not np.tril(whole[1], -2)[..., :5, :].any() and np.tril(whole[2], -2).any()
    mean = np.asarray(whole.mean(2)[:, 0]) / 2 + np.eye(6) / 2
    np.testing.assert_allclose(kept.rollout[0], mean[3] @ mean[2] @ mean[1] @ mean[0], rtol=1e-5)
    away = np.abs(np.subtract.outer(np.arange(5), np.arange(5)))
    np.testing.assert_allclose(kept.distance, (whole[..., 0, :, :5, :5] * away).sum(-1).mean(-1), rtol=1e-5)
