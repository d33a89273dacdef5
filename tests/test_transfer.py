"""Transfer of parameters by path from several origins, and other sizes of axes, on shapes and small tables."""

import jax.numpy as jnp
import numpy as np
import pytest

from txjax.transfer import (
    Bicubic,
    Bilinear,
    CutOrStretch,
    Every,
    First,
    From,
    Last,
    Linear1D,
    SummedChannels,
    Words,
)
from txjax.transfer.match import Row, Source, match, stored_variables
from txjax.transfer.origin import origins
from txjax.types import UserError

from helpers.arrays import numbers

pytestmark = pytest.mark.claim("Transfer", "resampled positions equal PyTorch's (needs torch)")


def arrays(**shapes: tuple[int, ...]) -> dict:
    """Arrays by path, with `_` for `/`."""
    return {name.replace("_", "/"): (shape, "float32") for name, shape in shapes.items()}


HERE = stored_variables(arrays(weights_params_enc_a=(2, 3), weights_params_enc_b=(4,), weights_params_head_k=(3, 5)))
THERE = stored_variables(arrays(weights_params_body_a=(2, 3), weights_frozen_body_b=(4,), weights_params_old_k=(3, 7)))


def rows(*sources: tuple[From, dict], here=HERE, axes=None) -> list[Row]:
    """Each source is a run of its own: `W0`, `W1`, ..."""
    found = [Source(f"init_from[{i}]", origin, f"W{i}", there) for i, (origin, there) in enumerate(sources)]
    return match(found, here, axes or {})


def actions(origin: From, here=HERE, there=THERE, axes=None) -> dict[str, tuple[str, str]]:
    found = rows((origin, there), here=here, axes=axes)
    return {row.path: (row.action, row.there.at if row.there else "") for row in found}


def test_a_prefix_here_is_a_prefix_there_whatever_was_frozen():
    assert actions(From(here="enc", there="body")) == {
        "enc/a": ("loaded", "weights/params/body/a"),
        "enc/b": ("loaded", "weights/frozen/body/b"),
        "head/k": ("new", ""),
    }


def test_the_empty_prefix_is_all_and_omitted_paths_are_not_taken():
    there = stored_variables(
        arrays(weights_params_m_enc_a=(2, 3), weights_params_m_enc_b=(4,), weights_params_m_head_k=(3, 5))
    )
    assert actions(From(there="m", omit=("enc/b", "head")), there=there) == {
        "enc/a": ("loaded", "weights/params/m/enc/a"),
        "enc/b": ("new", ""),
        "head/k": ("new", ""),
        "m/enc/b": ("dropped", "weights/params/m/enc/b"),
        "m/head/k": ("dropped", "weights/params/m/head/k"),
    }


def test_equal_names_in_two_towers_do_not_collide():
    tower = stored_variables(arrays(weights_params_a=(2,), weights_params_b=(3,)))
    here = stored_variables(
        {f"weights/params/{t}/{x}": (s, "float32") for t in "lr" for x, s in (("a", (2,)), ("b", (3,)))}
    )
    found = rows((From(here="l"), tower), (From(here="r", omit=("r/b",)), tower), here=here)
    assert [(row.action, row.path, row.source) for row in found] == [
        ("loaded", "l/a", 0),
        ("loaded", "l/b", 0),
        ("loaded", "r/a", 1),
        ("new", "r/b", None),
        ("dropped", "b", 1),
    ]


def test_a_prompt_starts_as_words():
    """The means of their tokens' rows, beside the whole model of the same run."""
    there = stored_variables(arrays(weights_params_embed=(256, 3)))
    here = stored_variables(arrays(weights_params_embed=(256, 3), weights_params_prompt=(2, 3)))

    def taken(*texts: str) -> dict[str, Row]:
        way = From(here="prompt", there="embed", resize=(Words(texts, factor=2.0),))
        both = [
            Source(field, origin, "W", there) for field, origin in (("init_from[0]", From()), ("init_from[1]", way))
        ]
        return {row.path: row for row in match(both, here, {"prompt": ("prompt", "embed")})}

    found, table = taken("ab", "c"), numbers(256, 3)
    assert {path: row.action for path, row in found.items()} == {"embed": "loaded", "prompt": "resized"}
    want = [table[[97, 98]].sum(0), 2 * table[99]]
    np.testing.assert_allclose(found["prompt"].resize(jnp.asarray(table)), want, rtol=1e-6)
    with pytest.raises(UserError, match=r"init_from\[1\]\.resize\.texts: expected 2 texts, .*, got 3"):
        taken("a", "b", "c")
    with pytest.raises(UserError, match=r"resize\.texts: expected texts with tokens among .*, got ''"):
        taken("a", "")


def test_an_array_of_two_origins_names_both():
    with pytest.raises(UserError) as error:
        rows((From(), HERE), (From(here="enc", there="body"), THERE))
    for word in ("one origin of enc/a", "init_from[0]", "enc/a of W0", "init_from[1]", "body/a of W1", "omit=('enc',)"):
        assert word in str(error.value), error.value
    assert len(rows((From(omit=("enc",)), HERE), (From(here="enc", there="body"), THERE))) == 5


def test_averages_and_state_of_the_model():
    there = stored_variables(
        arrays(weights_params_a=(2,), weights_ema_a=(2,), weights_frozen_b=(3,))
        | {"weights/model_state/batch_stats/a": ((4,), "float32"), "training/opt_state/0/mu/a": ((2,), "float32")}
    )
    here = stored_variables(
        arrays(weights_params_a=(2,), weights_params_b=(3,)) | {"weights/model_state/batch_stats/a": ((4,), "float32")}
    )
    found = [row.there.at for row in rows((From(), there), here=here) if row.there]
    assert found == ["weights/ema/a", "weights/frozen/b", "weights/model_state/batch_stats/a"]


@pytest.mark.parametrize(
    ("origin", "words"),
    [
        (From(), ["init_from[0]", "not one path is the same", "such as enc/a"]),
        (From(here="enk"), ["init_from[0].here", "this model", "did you mean enc"]),
        (From(here="enc", there="bodi"), ["init_from[0].there", "in W0", "did you mean body"]),
        (From(omit=("hed",)), ["init_from[0].omit[0]", "this model", "did you mean head"]),
        (
            From(here="head", there="old"),
            ["head/k to be float32[3, 5], got 'float32[3, 7] in W0'", "omit=('head',) leaves it out"],
        ),
    ],
    ids=str,
)
def test_user_errors(origin, words):
    with pytest.raises(UserError) as error:
        actions(origin)
    for word in words:
        assert word in str(error.value)


@pytest.mark.parametrize(
    ("init_from", "words"),
    [
        (5, ["config.init_from: expected a text such as WORKDIR@best", "int"]),
        (("a", 5), ["config.init_from[1]", "int"]),
        (From("a", omit="head"), ["config.init_from.omit: expected a tuple, such as ('head',)"]),
        ((From("a", resize=Bicubic()),), ["config.init_from[0].resize: expected a tuple"]),
    ],
    ids=str,
)
def test_what_is_no_origin(init_from, words):
    with pytest.raises(UserError) as error:
        origins(init_from)
    for word in words:
        assert word in str(error.value)


def test_origins_without_a_run_are_none():
    assert origins(None) == origins(From(omit=("head",))) == origins(()) == []
    assert [field for field, _ in origins((From(), "runs/a@best"))] == ["config.init_from[1]"]


def test_nothing_is_cast():
    there = {"params": {path: array._replace(dtype="bfloat16") for path, array in HERE["params"].items()}}
    with pytest.raises(UserError, match=r"enc/a to be float32\[2, 3\], got 'bfloat16\[2, 3\] in W0'"):
        actions(From(), there=there)


def test_positions_of_another_size_are_resized_where_asked_for():
    here, there = (stored_variables({"weights/params/table": ((n, 6), "float32")}) for n in (17, 5))
    table = {"table": ("positions", "width")}
    assert actions(From(resize=(Bicubic(),)), here, there, table)["table"][0] == "resized"
    with pytest.raises(UserError, match=r"float32\[17, 6\], got 'float32\[5, 6\] in W0'; resize=Bicubic"):
        actions(From(), here, there, table)
    with pytest.raises(UserError, match="omit=.* leaves it out"):  # no table of positions
        actions(From(resize=(Bicubic(),)), here, there)
    with pytest.raises(UserError, match="resize.columns: expected a grid of 17 patches .*got 'a square grid'"):
        actions(From(resize=(Bicubic(prefix=0),)), here, there, table)
    with pytest.raises(UserError, match="resize.columns_there: expected a grid of 4 patches .*got 'rows of 3'"):
        actions(From(resize=(Bicubic(columns_there=3),)), here, there, table)


def test_axes_are_found_by_name_wherever_they_are():
    """Offsets of windows in a stack, of half as many layers: [layers offsets heads], as in Swin."""
    table = numbers(4, 9, 2)
    here, there = (stored_variables({"weights/params/bias": (s, "float32")}) for s in ((2, 25, 2), (4, 9, 2)))
    ways = (Every(2, start=1), Bicubic(prefix=0, axis="offsets"))
    (row,) = rows((From(resize=ways), there), here=here, axes={"bias": ("layers", "offsets", "heads")})
    resized = row.resize(jnp.asarray(table))
    for layer in range(2):
        expected = Bicubic(prefix=0)(jnp.asarray(table[1 + 2 * layer]), 25)
        np.testing.assert_allclose(resized[layer], expected, atol=1e-6)


@pytest.mark.parametrize(
    ("way", "depth", "there", "taken"),
    [
        (Every(2), 3, 6, [0, 2, 4]),
        (Every(2, start=1), 3, 6, [1, 3, 5]),
        (Every(3), 2, 4, [0, 3]),
        (First(2), 2, 6, [0, 1]),
        (First(2), 2, 2, [0, 1]),
        (Last(2), 2, 6, [4, 5]),
        (Every(2), 4, 6, "4 of the 6 layers, got 'every 2. from 0, which are 3'"),
        (Every(2), 6, 6, "6 of the 6 layers, got 'every 2. from 0, which are 3'"),
        (First(2), 3, 6, "3 of the 6 layers, got 'the first 2'"),
        (Last(2), 3, 6, "3 of the 6 layers, got 'the last 2'"),
        (First(3), 3, 2, "3 of the 2 layers, got 'the first 3'"),
        (None, 3, 6, "resize=Every(2), First(2) or Last(2) fits it"),
    ],
    ids=str,
)
def test_layers_of_a_stack(way, depth, there, taken):
    sizes = [stored_variables({"weights/params/layers/k": ((n, 2), "float32")}) for n in (depth, there)]
    axes, origin = {"layers/k": ("layers", "width")}, From(resize=(way,) if way else ())
    if isinstance(taken, str):
        with pytest.raises(UserError) as error:
            rows((origin, sizes[1]), here=sizes[0], axes=axes)
        assert taken in str(error.value) and "init_from[0]" in str(error.value)
        return
    (row,) = rows((origin, sizes[1]), here=sizes[0], axes=axes)
    stack = numbers(there, 2)
    np.testing.assert_array_equal(row.resize(jnp.asarray(stack)), stack[taken])


def keys(x: np.ndarray) -> np.ndarray:
    """Keys 1981, eq. 4 (a = -1/2)."""
    x = np.abs(x)
    near, far = 1.5 * x**3 - 2.5 * x**2 + 1, -0.5 * x**3 + 2.5 * x**2 - 4 * x + 2
    return np.where(x < 1, near, np.where(x < 2, far, 0))


def tent(x: np.ndarray) -> np.ndarray:
    return np.maximum(0, 1 - np.abs(x))


def weights(kernel, old: int, new: int) -> np.ndarray:
    """[new old]: the kernel between centres of cells, as wide as the wider cells, normalised."""
    ratio = old / new
    centres = (np.arange(new)[:, None] + 0.5) * ratio - 0.5
    found = kernel((centres - np.arange(old)) / max(ratio, 1))
    return found / found.sum(1, keepdims=True)


@pytest.mark.parametrize(("old", "new"), [((3, 3), (5, 5)), ((5, 5), (3, 3)), ((2, 4), (5, 3))], ids=str)
def test_bicubic_is_keys_kernel_on_the_grid(old, new):
    table = numbers(1 + old[0] * old[1], 6)
    grid = table[1:].reshape(*old, 6)
    expected = np.einsum("ai,bj,ijd->abd", weights(keys, old[0], new[0]), weights(keys, old[1], new[1]), grid)
    found = Bicubic(columns=new[1], columns_there=old[1])(jnp.asarray(table), 1 + new[0] * new[1])
    np.testing.assert_array_equal(found[0], table[0])
    np.testing.assert_allclose(found[1:], expected.reshape(-1, 6), atol=1e-5)


def test_positions_of_a_vit_are_cut_or_stretched_for_a_spectrogram():
    """5 x 4 patches after a class token become 2 x 7 after two tokens: cut from the middle, and linear over time."""
    table = numbers(1 + 20, 6)
    grid = table[1:].reshape(5, 4, 6)[1:3]  # 5 // 2 - 2 // 2 = 1
    expected = np.einsum("bj,ijd->ibd", weights(tent, 4, 7), grid).reshape(14, 6)
    way = CutOrStretch(prefix=2, prefix_there=1, columns=7, columns_there=4)
    resized = way(jnp.asarray(table), 16)
    np.testing.assert_array_equal(resized[:2], table[[0, 0]])
    np.testing.assert_allclose(resized[2:], expected, atol=1e-6)
    fewer = CutOrStretch(prefix=1, prefix_there=2, columns=2, columns_there=4)  # 1 x 2 of 3 x 4, from the middle
    np.testing.assert_array_equal(fewer(jnp.asarray(table[:14]), 3), table[[0, 2 + 5, 2 + 6]])


def test_grids_of_as_many_positions_may_differ():
    """3 x 4 patches become 4 x 3; of the same grid, positions are loaded bit for bit."""
    here = stored_variables(arrays(weights_params_table=(13, 2)))
    axes = {"table": ("positions", "width")}
    other, same = (From(resize=(CutOrStretch(columns=c, columns_there=4),)) for c in (3, 4))
    assert actions(other, here, here, axes)["table"][0] == "resized"
    assert actions(same, here, here, axes)["table"][0] == "loaded"


def test_kernels_of_patches_are_summed_over_channels():
    kernel = numbers(4 * 3, 5)
    here, there = (stored_variables({"weights/params/k": ((n, 5), "float32")}) for n in (4, 12))
    axes = {"k": ("pixels", "embed")}
    (row,) = rows((From(resize=(SummedChannels(),)), there), here=here, axes=axes)
    expected = np.stack([kernel[3 * pixel : 3 * pixel + 3].sum(0) for pixel in range(4)])
    np.testing.assert_allclose(row.resize(jnp.asarray(kernel)), expected, rtol=1e-6)
    with pytest.raises(UserError, match=r"init_from\[0\].resize: expected patches of 12 pixels .*got '4 numbers'"):
        rows((From(resize=(SummedChannels(),)), here), here=there, axes=axes)


def test_bilinear_is_linear_along_rows_and_columns():
    """A table for windows of 2 becomes one for windows of 4."""
    table = numbers(9, 2)
    expected = np.einsum("ai,bj,ijd->abd", weights(tent, 3, 7), weights(tent, 3, 7), table.reshape(3, 3, 2))
    np.testing.assert_allclose(Bilinear()(jnp.asarray(table), 49), expected.reshape(49, 2), atol=1e-5)
    here, there = (stored_variables({"weights/params/table": (s, "float32")}) for s in ((49, 2), (9, 2)))
    axes = {"table": ("offsets", "heads")}
    assert actions(From(resize=(Bilinear(),)), here, there, axes)["table"][0] == "resized"
    with pytest.raises(UserError, match=r"resize=Bilinear\(\) fits it"):
        actions(From(), here, there, axes)


@pytest.mark.parametrize(("old", "new"), [(4, 7), (7, 3)])
def test_linear_on_the_line(old, new):
    table = numbers(old, 6)
    found = Linear1D()(jnp.asarray(table), new)
    np.testing.assert_allclose(found, weights(tent, old, new) @ table, atol=1e-5)


def test_the_same_size_is_left_as_it_is():
    table = jnp.asarray(numbers(10, 6))
    np.testing.assert_allclose(Bicubic()(table, 10), table, atol=1e-6)


@pytest.mark.slow
@pytest.mark.parametrize(("old", "new"), [(14, 24), (16, 7)])
def test_bicubic_agrees_with_torch(old, new):
    torch = pytest.importorskip("torch")
    table = numbers(1 + old * old, 8)
    grid = torch.tensor(table[1:]).reshape(1, old, old, 8).permute(0, 3, 1, 2)
    resized = torch.nn.functional.interpolate(grid, size=(new, new), mode="bicubic", antialias=True)
    expected = resized.permute(0, 2, 3, 1).reshape(new * new, 8).numpy()
    np.testing.assert_allclose(Bicubic()(jnp.asarray(table), 1 + new * new)[1:], expected, atol=1e-5)
