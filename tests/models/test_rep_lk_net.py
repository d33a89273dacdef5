"""RepLKNet: a block against its formulas in numpy, and the merged model against the one that was trained."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from txjax.models import Stage
from txjax.models.vision.rep_lk_net import LargeKernelMixer, MergedKernel, ParallelKernels, RepLKNet
from txjax.models.vision.rep_lk_net.card import CARD, REPLKNET
from txjax.nn import Classes, MeanTokens
from txjax.nn.layers.mlp import gelu
from txjax.types import UserError

from helpers.arrays import numbers, shapes, variables

IMAGE = jnp.asarray(numbers(2, 20, 24, 1))


def small(**fields: Any) -> RepLKNet:
    stages = dict(stages=(Stage(6, 2), Stage(8, 1)), sides=(7, 5))
    mixer = LargeKernelMixer(kernel=ParallelKernels(small=3), ratio=1.5)
    return RepLKNet(**stages | dict(mixer=mixer, head=Classes(3, MeanTokens())) | fields)


def normed(x: np.ndarray, made: dict[str, Any], path: str) -> np.ndarray:
    """Batch normalization in evaluation."""
    p, s = (of(made[name], path) for name in ("params", "batch_stats"))
    return (x - s["mean"]) / np.sqrt(s["var"] + 1e-5) * p["scale"] + p["bias"]


def of(tree: dict[str, Any], path: str) -> dict[str, Any]:
    for name in path.split("/"):
        tree = tree[name]
    return {name: np.asarray(leaf) for name, leaf in tree.items()}


def convolved(image: np.ndarray, kernel: np.ndarray) -> np.ndarray:
    """Depthwise, with zeros around the image [B R C D]."""
    reach = kernel.shape[0] // 2
    padded = np.pad(image, ((0, 0), (reach, reach), (reach, reach), (0, 0)))
    out = np.zeros_like(image)
    for i in range(kernel.shape[0]):
        for j in range(kernel.shape[1]):
            out += padded[:, i : i + image.shape[1], j : j + image.shape[2]] * kernel[i, j, 0]
    return out


def test_a_stage_is_the_formula_of_the_paper() -> None:
    """Ding et al. 2022, figure 2 and appendix: both blocks of the second stage, from what the first one returns."""
    model = small(head=None)
    made = variables(model, IMAGE)
    encoded = jax.jit(model.apply)(made, IMAGE)
    assert [tuple(stage.grid) for stage in encoded.stages] == [(5, 6, 0), (3, 3, 0)]

    made = jax.tree.map(np.asarray, made)
    x = np.asarray(encoded.stages[0].features).reshape(2, 5, 6, 6)
    first, second = (f"downsample_1/conv_{i}" for i in range(2))
    x = np.maximum(normed(x @ of(made["params"], f"{first}/conv")["kernel"][0, 0], made, f"{first}/norm"), 0)
    x = convolved(x, of(made["params"], f"{second}/conv")["kernel"])[:, ::2, ::2]
    x = np.maximum(normed(x, made, f"{second}/norm"), 0)

    layer = {
        name: jax.tree.map(lambda leaf: leaf[0], made[name]["stages_1"]["layers"]["block"])
        for name in ("params", "batch_stats")
    }
    kernels = layer["params"]["mixer"]

    def pointwise(y: np.ndarray, name: str) -> np.ndarray:
        y = y @ kernels[name]["conv"]["kernel"][0, 0]
        return normed(y, layer, f"mixer/{name}/norm")

    y = np.maximum(pointwise(normed(x, layer, "norm_mixer"), "in"), 0)
    branches = [
        normed(convolved(y, kernels["depthwise"][name]["conv"]["kernel"]), layer, f"mixer/depthwise/{name}/norm")
        for name in ("large", "small")
    ]
    x = x + pointwise(np.maximum(sum(branches), 0), "out")
    y = normed(normed(x, layer, "norm_mlp") @ layer["params"]["mlp"]["up"]["kernel"], layer, "mlp/norm_up")
    y = np.asarray(gelu(jnp.asarray(y))) @ layer["params"]["mlp"]["down"]["kernel"]
    x = x + normed(y, layer, "mlp/norm_down")
    np.testing.assert_allclose(encoded.stages[1].features, x.reshape(2, 9, 8), atol=2e-4, rtol=1e-4)
    np.testing.assert_allclose(encoded.features, normed(x, made, "norm_final").reshape(2, 9, 8), atol=2e-4, rtol=1e-4)


@pytest.mark.parametrize("branch", [3, None])
def test_the_merged_model_equals_the_one_that_was_trained(branch: int | None) -> None:
    model = small(mixer=LargeKernelMixer(kernel=ParallelKernels(small=branch)))
    made = variables(model, IMAGE)
    merged, folded = model.merged(made)
    assert isinstance(merged.mixer.kernel, MergedKernel)
    wanted = shapes(merged, IMAGE)
    assert jax.tree.map(jnp.shape, folded) == jax.tree.map(lambda leaf: leaf.shape, wanted)
    before, after = (jax.jit(m.apply)(v, IMAGE) for m, v in ((model, made), (merged, folded)))
    np.testing.assert_allclose(before, after, atol=1e-4, rtol=1e-4)
    with pytest.raises(UserError, match=r"config\.model\.mixer\.kernel: expected ParallelKernels\(\)"):
        merged.merged(folded)


@pytest.mark.parametrize("sides", [(7,), (7, 4)])
def test_kernels_that_are_no_odd_number_a_stage_are_a_user_error(sides: tuple[int, ...]) -> None:
    with pytest.raises(UserError, match=r"config\.model\.sides: expected 2 odd numbers, one a stage"):
        shapes(small(sides=sides), IMAGE)


@pytest.mark.parametrize("size", REPLKNET)
def test_replknet_by_its_shapes(size: str) -> None:
    """Without a reference class: every convolution with its norm (Ding et al. 2022, 4.1), as it is trained."""
    widths, depths = REPLKNET[size]
    sides, small, ratio = ((27, 27, 27, 13), 0, 1.5) if size == "XL" else ((31, 29, 27, 13), 5, 1.0)
    first = widths[0]
    total = 27 * first + 9 * first + first * first + 9 * first + 4 * 2 * first
    for i, (d, depth, side) in enumerate(zip(widths, depths, sides, strict=True)):
        hidden = int(ratio * d)
        kernels = hidden * side**2 + 2 * hidden + (hidden * small**2 + 2 * hidden if small else 0)
        mixer = 2 * d + 2 * d * hidden + 2 * hidden + 2 * d + kernels
        total += depth * (mixer + 2 * d + 8 * d * d + 2 * 4 * d + 2 * d)
        if i:
            total += widths[i - 1] * d + 2 * d + 9 * d + 2 * d
    assert total + 2 * widths[-1] + 1000 * widths[-1] + 1000 == CARD.presets[0].sizes[size].parameters
