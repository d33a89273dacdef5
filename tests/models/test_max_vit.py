"""MaxViT against the paper's formulas in numpy."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from txjax.models import Stage
from txjax.models.vision.max_vit import MaxViT, MaxViTStem, MBConv
from txjax.models.vision.max_vit.card import CARD, MAX_VIT
from txjax.nn import (
    BatchNorm,
    Classes,
    Grid,
    GridAttention,
    KernelInit,
    NormedPool,
    PatchMerging,
    Pooler,
    PreNorm,
    WindowAttention,
)
from txjax.types import UserError

from helpers.arrays import numbers, on_jax, shapes, variables


def gelu(x: np.ndarray) -> np.ndarray:
    return 0.5 * x * (1 + np.tanh((2 / np.pi) ** 0.5 * (x + 0.044715 * x**3)))


def sigmoid(x: np.ndarray) -> np.ndarray:
    return 1 / (1 + np.exp(-x))


def dense(x: np.ndarray, p: Any) -> np.ndarray:
    return x @ p["kernel"] + p.get("bias", 0)


def conv(x: np.ndarray, p: Any, stride: int = 1) -> np.ndarray:
    """3 x 3, depthwise if the kernel has one input; zeros around x give ceil(size / stride) outputs."""
    kernel, sizes = p["kernel"], [-(-size // stride) for size in x.shape[1:3]]
    more = [max((out - 1) * stride + 3 - size, 0) for out, size in zip(sizes, x.shape[1:3], strict=True)]
    x = np.pad(x, [(0, 0), *((n // 2, n - n // 2) for n in more), (0, 0)])
    y = np.zeros((len(x), *sizes, kernel.shape[-1]))
    for i, j in np.ndindex(3, 3):
        part = x[:, i : i + stride * sizes[0] : stride, j : j + stride * sizes[1] : stride][:, : sizes[0], : sizes[1]]
        y += part * kernel[i, j, 0] if kernel.shape[2] == 1 else part @ kernel[i, j]
    return y + p.get("bias", 0)


class Batch:
    """Batch normalization by given averages, or in training by the batch; `seen` has the statistics of that by path."""

    def __init__(self, stats: Any, train: bool = False):
        self.stats, self.train = stats, train
        self.seen: dict[str, tuple[np.ndarray, np.ndarray]] = {}

    def __call__(self, x: np.ndarray, name: str, p: Any) -> np.ndarray:
        mean, var = self.stats[name]["mean"], self.stats[name]["var"]
        if self.train:
            mean, var = x.mean((0, 1, 2)), x.var((0, 1, 2))
            count = x.size // x.shape[-1]
            self.seen[name] = mean, var * count / (count - 1)
        return (x - mean) / np.sqrt(var + 1e-3) * p[name]["scale"] + p[name]["bias"]


def mb_conv(x: np.ndarray, p: Any, norm: Batch, stride: int) -> np.ndarray:
    y = gelu(norm(dense(norm(x, "norm", p), p["expand"]), "norm_expand", p))
    y = gelu(norm(conv(y, p["depthwise"], stride), "norm_depthwise", p))
    small = dense(y.mean((1, 2)), p["excite"]["down"])
    y = y * sigmoid(dense(small * sigmoid(small), p["excite"]["up"]))[:, None, None]
    if stride == 2:  # the mean of the pixels that there are
        rows, columns = y.shape[1:3]
        x = np.stack(
            [x[:, 2 * i : 2 * i + 2, 2 * j : 2 * j + 2].mean((1, 2)) for i, j in np.ndindex(rows, columns)], 1
        ).reshape(len(x), rows, columns, -1)
    return (dense(x, p["shortcut"]) if "shortcut" in p else x) + dense(y, p["shrink"])


def block_conv(**fields: Any) -> MBConv:
    norm = BatchNorm(momentum=0.99, eps=1e-3)
    set_by_the_model = dict(width=6, in_axis="width", norm=norm, kernel_init=KernelInit(), drop_path=0.0)
    return MBConv(**set_by_the_model | fields)


@pytest.mark.slow
@pytest.mark.parametrize(("width", "stride"), [(6, 2), (8, 1)])
def test_mb_conv(width: int, stride: int) -> None:
    """On an odd grid, in evaluation and in training, whose averages are of the unbiased variance."""
    x, grid = numbers(3, 35, 8) + 1, Grid(7, 5)
    module = block_conv(width=width, stride=stride)
    made = variables(module, x, grid, False)
    assert ("shortcut" in made["params"]) == (width != 8) and made["params"]["excite"]["up"]["kernel"].shape[
        0
    ] == width // 4
    for train in (False, True):
        norm = Batch(made["batch_stats"], train)
        wanted = mb_conv(x.reshape(3, 7, 5, 8), made["params"], norm, stride)
        (found, out_grid), changed = module.apply(on_jax(made), jnp.asarray(x), grid, train, mutable=["batch_stats"])
        assert out_grid == Grid(*wanted.shape[1:3])
        np.testing.assert_allclose(found, wanted.reshape(3, -1, width), atol=2e-5)
        for name, stats in norm.seen.items():
            for key, value in zip(("mean", "var"), stats, strict=True):
                average = 0.99 * made["batch_stats"][name][key] + 0.01 * value
                np.testing.assert_allclose(changed["batch_stats"][name][key], average, atol=1e-5)


def test_a_dropped_branch_leaves_the_shortcut() -> None:
    x, grid = jnp.asarray(numbers(8, 4, 8)), Grid(2, 2)
    made = on_jax(variables(block_conv(width=8, stride=1), x, grid, False))

    def branch(rate: float) -> jax.Array:
        module, key = block_conv(width=8, stride=1, drop_path=rate), {"dropout": jax.random.key(0)}
        return module.apply(made, x, grid, True, 0.625, rngs=key, mutable=["batch_stats"])[0][0] - x

    whole, dropped = jax.jit(lambda: (branch(0.0), branch(0.8)))()
    kept = np.abs(dropped).max((1, 2)) > 0
    assert 0 < kept.sum() < 8
    np.testing.assert_allclose(dropped[kept], 2 * whole[kept], atol=1e-5)


def layer_norm(x: np.ndarray, p: Any) -> np.ndarray:
    centred = x - x.mean(-1, keepdims=True)
    return centred / np.sqrt(np.square(centred).mean(-1, keepdims=True) + 1e-5) * p["scale"] + p["bias"]


def sets(grid: tuple[int, int], side: int, strided: bool) -> list[list[tuple[int, int]]]:
    """The rows and columns of the tokens that attend to each other; beyond the grid is padding."""
    side = min(side, *grid)
    counts = [-(-size // side) for size in grid]
    found = []
    for set_ in np.ndindex(*counts):
        inside = np.ndindex(side, side)
        near = [tuple(s * side + i for s, i in zip(set_, token, strict=True)) for token in inside]
        far = [
            tuple(s + i * n for s, i, n in zip(set_, token, counts, strict=True)) for token in np.ndindex(side, side)
        ]
        found.append(far if strided else near)
    return found


def attention(x: np.ndarray, p: Any, side: int, strided: bool) -> np.ndarray:
    rows, columns = x.shape[1:3]
    table = p["table"].reshape(2 * side - 1, 2 * side - 1, -1)
    out = np.zeros_like(x)
    for members in sets((rows, columns), side, strided):
        real = [r < rows and c < columns for r, c in members]
        zero = np.zeros_like(x[:, 0, 0])
        tokens = np.stack([x[:, r, c] if there else zero for (r, c), there in zip(members, real, strict=True)], 1)
        q, k, v = (
            np.einsum("bsd,dhk->bhsk", tokens, p[n]["kernel"]) + p[n]["bias"][:, None]
            for n in ("query", "key", "value")
        )
        own = int(len(members) ** 0.5)
        steps = (
            np.array([[(a // own - b // own, a % own - b % own) for b in range(own**2)] for a in range(own**2)])
            + side
            - 1
        )
        scores = q @ k.swapaxes(2, 3) / q.shape[-1] ** 0.5 + np.moveaxis(table[steps[..., 0], steps[..., 1]], -1, 0)
        weights = np.exp(scores - scores.max(-1, keepdims=True))
        y = (
            np.einsum("bhsk,hkd->bsd", weights / weights.sum(-1, keepdims=True) @ v, p["out"]["kernel"])
            + p["out"]["bias"]
        )
        for i, (r, c) in enumerate(members):
            if real[i]:
                out[:, r, c] = y[:, i]
    return out


def layer(x: np.ndarray, p: Any, side: int) -> np.ndarray:
    """The attentions and MLPs of a layer."""
    for start, strided in (("", False), ("grid_", True)):
        x = x + attention(layer_norm(x, p[f"norm_{start}attention"]), p[f"{start}attention"], side, strided)
        mlp = p[f"{start}mlp"]
        x = x + dense(gelu(dense(layer_norm(x, p[f"norm_{start}mlp"]), mlp["up"])), mlp["down"])
    return x


def model(**fields: Any) -> MaxViT:
    small: dict[str, Any] = dict(
        stages=(Stage(8, 1, 2), Stage(16, 3, 2)),
        stem=MaxViTStem(channels=4),
        mixer=WindowAttention(side=3),
        grid_attention=GridAttention(side=3),
        head=Classes(3, Pooler(pool=NormedPool())),
    )
    return MaxViT(**small | fields)


def test_the_whole_model() -> None:
    """A grid of 7 x 5 in padded windows and sets of 3 x 3, then a grid of 4 x 3."""
    image = numbers(2, 27, 19, 3)
    own = model()
    made = variables(own, image)
    p, stats = made["params"], made["batch_stats"]
    stem, norms = p["downsample_0"], stats["downsample_0"]
    x = gelu(Batch(norms)(conv(image, stem["conv_1"], 2), "norm", stem))
    x = mb_conv(conv(x, stem["conv_2"]), stem["mb_conv"], Batch(norms["mb_conv"]), 2)
    x = layer(x, jax.tree.map(lambda a: a[0], p["stages_0"]["first"]["block"]), 3)
    x = mb_conv(x, p["downsample_1"], Batch(stats["downsample_1"]), 2)
    x = layer(x, jax.tree.map(lambda a: a[0], p["stages_1"]["first"]["block"]), 3)
    assert x.shape == (2, 4, 3, 16)
    for i in range(2):
        block, norm = (jax.tree.map(lambda a, i=i: a[i], tree["stages_1"]["layers"]["block"]) for tree in (p, stats))
        x = layer(mb_conv(x, block["conv"], Batch(norm["conv"]), 1), block, 3)
    pooled = np.tanh(dense(layer_norm(x.mean((1, 2)), p["norm_final"]), p["pooler"]))
    found = jax.jit(lambda image: own.apply(on_jax(made), image))(jnp.asarray(image))
    np.testing.assert_allclose(found, dense(pooled, p["head"]), atol=1e-4)


def test_drop_path_rises_over_all_layers() -> None:
    own = model(block=model().block.clone(drop_path=0.6))
    entrances = own.entrance_fields(0)["mb_conv"].drop_path, own.entrance_fields(1)["drop_path"]
    np.testing.assert_allclose(entrances, (0.0, 0.2))
    np.testing.assert_allclose(own.layers_of(1).stack.fractions, (1 / 3, 1.0))
    assert own.layers_of(1).conv.drop_path == 0.6 and own.layers_of(1).conv.stride == 1


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"stages": (Stage(8, 1, 2),) * 4}, "downsample.stride: expected at most the 1 x 1 tokens .*, got 2; larger"),
        ({"downsample": PatchMerging()}, r"config.model.downsample: expected MBConv\(\), got .PatchMerging"),
        ({"stem": PatchMerging()}, r"config.model.stem: expected MaxViTStem\(\), got .PatchMerging"),
        ({"block": PreNorm()}, r"config.model.block: expected MaxViTBlock\(\)"),
        ({"mixer": (WindowAttention(), WindowAttention())}, r"config.model.block: expected MaxViTBlock\(\) with"),
        ({"grid_attention": GridAttention(shift=2)}, "grid_attention.shift: expected 0"),
    ],
)
def test_parts_that_do_not_fit(fields: dict[str, Any], message: str) -> None:
    with pytest.raises(UserError, match=message) as error:
        shapes(model(**fields), numbers(1, 8, 8, 1))
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("size", MAX_VIT)
def test_max_vit_by_its_shapes(size: str) -> None:
    """Without a reference class: the matrices and vectors of every layer (Tu et al. 2022, 3.3 and table 1)."""
    widths, depths, _ = MAX_VIT[size]
    before = stem = {"L": 128, "XL": 192}.get(size, 64)
    total = 27 * stem + stem + 2 * stem + 9 * stem * stem + stem
    for d, depth in zip(widths, depths, strict=True):
        f, table = 4 * d, 13 * 13 * d // 32
        block = 4 * (d * d + d) + table + 2 * d * f + f + d + 4 * d  # attention, MLP, two norms
        for i in (before, *(d,) * (depth - 1)):
            conv = 2 * i + i * f + 2 * f + 9 * f + 2 * f + 2 * f * d // 4 + d // 4 + f + f * d + d
            total += conv + (i * d + d if i != d else 0) + 2 * block
        before = d
    assert total + 2 * d + d * d + d + 1000 * d + 1000 == CARD.presets[0].sizes[size].parameters
