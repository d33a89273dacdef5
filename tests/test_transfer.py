"""Transfer of parameters by path, and resampling of positions, on shapes and small tables."""

import jax.numpy as jnp
import numpy as np
import pytest

from txjax.transfer import Bicubic, Linear1D, Transfer, plan, stored_variables
from txjax.types import UserError

from made import numbers


def arrays(**shapes: tuple[int, ...]) -> dict:
    """Arrays by path, with `_` for `/`."""
    return {name.replace("_", "/"): (shape, "float32") for name, shape in shapes.items()}


HERE = stored_variables(arrays(weights_params_enc_a=(2, 3), weights_params_enc_b=(4,), weights_params_head_k=(3, 5)))
THERE = stored_variables(arrays(weights_params_body_a=(2, 3), weights_frozen_body_b=(4,), weights_params_old_k=(3, 7)))


def actions(transfer: Transfer, here=HERE, there=THERE, tables=()) -> dict[str, tuple[str, str]]:
    found = plan(transfer, here, there, tables, "W")
    return {row.path: (row.action, row.there.at if row.there else "") for row in found}


def test_prefixes_lead_from_here_to_there_whatever_was_frozen():
    assert actions(Transfer({"enc": "body"})) == {
        "enc/a": ("loaded", "weights/params/body/a"),
        "enc/b": ("loaded", "weights/frozen/body/b"),
        "head/k": ("new", ""),
        "old/k": ("dropped", "weights/params/old/k"),
    }


def test_the_longest_prefix_applies_and_the_empty_one_is_all():
    there = stored_variables(
        arrays(weights_params_m_enc_a=(2, 3), weights_params_m_enc_b=(4,), weights_params_x=(3, 5))
    )
    assert actions(Transfer({"": "m", "enc/b": None, "head/k": "x"}), there=there) == {
        "enc/a": ("loaded", "weights/params/m/enc/a"),
        "enc/b": ("new", ""),
        "head/k": ("loaded", "weights/params/x"),
        "m/enc/b": ("dropped", "weights/params/m/enc/b"),
    }


def test_averages_and_state_of_the_model():
    there = stored_variables(
        arrays(weights_params_a=(2,), weights_ema_a=(2,), weights_frozen_b=(3,))
        | {"weights/model_state/batch_stats/a": ((4,), "float32"), "training/opt_state/0/mu/a": ((2,), "float32")}
    )
    here = stored_variables(
        arrays(weights_params_a=(2,), weights_params_b=(3,)) | {"weights/model_state/batch_stats/a": ((4,), "float32")}
    )
    found = [row.there.at for row in plan(Transfer(), here, there, (), "W") if row.there]
    assert found == ["weights/ema/a", "weights/frozen/b", "weights/model_state/batch_stats/a"]


@pytest.mark.parametrize(
    ("prefixes", "words"),
    [
        ({}, ["not one path is the same", "such as enc/a", "transfer.prefixes"]),
        ({"enk": "body"}, ["config.transfer.prefixes['enk']", "this model", "did you mean enc"]),
        ({"enc": "bodi"}, ["config.transfer.prefixes['enc']", "in W", "did you mean body"]),
        ({"enc": 3}, ["a prefix of paths, or None", "3"]),
        (
            {"enc": "body", "head": "old"},
            [
                "head/k to be float32[3, 5], got 'float32[3, 7] in W'",
                "transfer.prefixes={'head': None} starts it fresh",
            ],
        ),
    ],
    ids=str,
)
def test_user_errors(prefixes, words):
    with pytest.raises(UserError) as error:
        actions(Transfer(prefixes))
    for word in words:
        assert word in str(error.value)


def test_nothing_is_cast():
    there = {"params": {path: array._replace(dtype="bfloat16") for path, array in HERE["params"].items()}}
    with pytest.raises(UserError, match=r"enc/a to be float32\[2, 3\], got 'bfloat16\[2, 3\] in W'"):
        actions(Transfer(), there=there)


def test_positions_of_another_size_are_resampled_where_asked_for():
    here, there = (stored_variables({"weights/params/table": ((n, 6), "float32")}) for n in (17, 5))
    assert actions(Transfer(resample=Bicubic()), here, there, ["table"])["table"][0] == "resampled"
    with pytest.raises(UserError, match=r"float32\[17, 6\], got 'float32\[5, 6\] in W'; transfer.resample=Bicubic"):
        actions(Transfer(), here, there, ["table"])
    with pytest.raises(UserError, match="starts it fresh"):  # no table of positions
        actions(Transfer(resample=Bicubic()), here, there)
    with pytest.raises(UserError, match="resample.columns: expected a grid of the 17 patches .*got 'a square grid'"):
        actions(Transfer(resample=Bicubic(prefix=0)), here, there, ["table"])
    with pytest.raises(UserError, match="resample.columns_there: expected a grid of the 4 patches .*got 'rows of 3'"):
        actions(Transfer(resample=Bicubic(columns_there=3)), here, there, ["table"])


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
