"""CvT: attention of convolved tokens by its formula, the class token, the batch's statistics, stages that differ."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from txjax.models import Stage
from txjax.models.vision.cvt import ConvAttention, CvT
from txjax.nn import Grid, KernelInit, LayerContext, PreNorm
from txjax.parametrization import MuP
from txjax.types import UserError, flat_paths

from helpers.arrays import numbers, shapes, variables

IMAGE = jnp.asarray(numbers(4, 13, 15, 2))
STAGES = (Stage(6, 1, 1), Stage(8, 2, 2), Stage(12, 3, 3))


def convolved(x: np.ndarray, made: Any, stats: Any, grid: Grid, stride: int) -> np.ndarray:
    """The patches after a depthwise 3 x 3 and the normalisation by running statistics, the other tokens before them."""
    image = np.pad(x[:, grid.prefix :].reshape(len(x), *grid[:2], -1), [(0, 0), (1, 1), (1, 1), (0, 0)])
    kernel = made["conv"]["kernel"][:, :, 0]
    rows, columns = (range(0, size, stride) for size in grid[:2])
    y = np.stack([[(image[:, r : r + 3, c : c + 3] * kernel).sum((1, 2)) for c in columns] for r in rows])
    y = (y - stats["norm"]["mean"]) / np.sqrt(stats["norm"]["var"] + 1e-5)
    y = y * made["norm"]["scale"] + made["norm"]["bias"]
    return np.concatenate([x[:, : grid.prefix], y.transpose(2, 0, 1, 3).reshape(len(x), -1, x.shape[-1])], 1)


def test_attention_of_convolved_tokens_equals_the_formula() -> None:
    grid, x = Grid(3, 4, prefix=1), numbers(2, 13, 6)
    mixer = ConvAttention(heads=2, kernel_init=KernelInit())
    made = variables(mixer, x, LayerContext(grid=grid))
    params, stats = made["params"], made["batch_stats"]

    def projected(name: str, stride: int) -> np.ndarray:
        y = convolved(x, params[f"conv_{name}"], stats[f"conv_{name}"], grid, stride)
        return np.einsum("bsd,dhk->bhsk", y, params[name]["kernel"]) + params[name]["bias"][None, :, None]

    query, key, value = projected("query", 1), projected("key", 2), projected("value", 2)
    assert key.shape == (2, 2, 1 + 2 * 2, 3)
    scores = np.einsum("bhqk,bhsk->bhqs", query, key) * 6**-0.5  # the width's, not the head's
    weights = np.exp(scores) / np.exp(scores).sum(-1, keepdims=True)
    wanted = np.einsum("bhqs,bhsk,hkd->bqd", weights, value, params["out"]["kernel"]) + params["out"]["bias"]
    found = jax.jit(mixer.apply)(made, jnp.asarray(x), LayerContext(grid=grid))
    np.testing.assert_allclose(found, wanted, atol=1e-5)


def test_training_takes_the_statistics_of_the_batch_in_every_layer() -> None:
    model = CvT(stages=STAGES[:2])
    made = variables(model, IMAGE)
    call = jax.jit(lambda image: model.apply(made, image, train=True, mutable=["batch_stats"]))
    encoded, changed = call(IMAGE)
    assert [stage.grid for stage in encoded.stages] == [Grid(3, 4), Grid(2, 2, prefix=1)]
    assert encoded.features.shape == (4, 5, 8) and encoded.prefix == 1
    before, after = flat_paths(made["batch_stats"]), flat_paths(changed["batch_stats"])
    assert before.keys() == after.keys() and len(before) == 2 * 3 * 2
    for path, x in after.items():
        depth = STAGES[int(path[len("stages_")])].depth
        assert x.shape[0] == depth and not np.isclose(x, before[path]).any(), path


def test_the_last_stage_alone_drops_branches() -> None:
    model = CvT(stages=STAGES, block=PreNorm(drop_path=0.3))
    found = [layers.stack.depth_fractions(layers.depth) for layers in map(model.layers_of, range(3))]
    np.testing.assert_allclose(np.concatenate(found), [0, 0, 0, 0, 0.5, 1], atol=1e-6)


def test_scores_scale_with_the_base_of_mup() -> None:
    """At twice the width in twice the heads the factor of the scores is the base's: the head's size is."""
    narrow = CvT(stages=STAGES, parametrization=MuP(base_width=6, base_head_size=6))
    wide = CvT(stages=tuple(Stage(2 * s.width, s.depth, 2 * s.heads) for s in STAGES), parametrization=MuP(6, 6))
    for number in range(3):
        sizes = [(model.layers_of(number).blocks().mixer, 6) for model in (narrow, wide)]
        factors = {mixer.query_factors(size) for mixer, size in sizes}
        assert factors == {(1.0, STAGES[number].heads ** -0.5)}


@pytest.mark.parametrize(
    ("fields", "shape", "words"),
    [
        ({}, (1, 2, 30, 1), r"NormedConvEmbedding\.side: expected at most 6.*, got 7; larger images"),
        ({"mixer": ConvAttention(side=2)}, (1, 8, 8, 1), r"mixer\.side: expected an odd number, got 2"),
        ({"mixer": ConvAttention(window=2)}, (1, 8, 8, 1), r"mixer: expected Attention\(\) for these tokens"),
    ],
)
def test_bad_sizes_are_errors_of_one_line(fields: dict[str, Any], shape: tuple[int, ...], words: str) -> None:
    with pytest.raises(UserError, match=words):
        shapes(CvT(stages=STAGES, **fields), numbers(*shape))
