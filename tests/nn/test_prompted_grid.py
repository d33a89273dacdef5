"""An adapter's tokens in windows of a grid, by the formula."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.special import softmax

from txjax.models.vision.sam import DecomposedAttention, DecomposedWindowAttention
from txjax.nn import (
    Attention,
    Grid,
    GridAttention,
    KernelInit,
    LayerContext,
    Mask,
    StridedWindows,
    WindowAttention,
    Windows,
)

from helpers.arrays import numbers, on_jax, variables

P, SIDE, D, H, K = 2, 4, 6, 2, 3
GRID = Grid(SIDE, SIDE)
X = numbers(2, P + SIDE**2, D)


def by_table(params: Any, query: np.ndarray) -> np.ndarray:
    """A learned number for each difference of rows and columns in a window of 2 x 2."""
    return params["table"][Windows(Grid(2, 2), 2).offsets()].transpose(2, 0, 1)


def decomposed(params: Any, query: np.ndarray) -> np.ndarray:
    """The query's product with a vector for each difference of rows, and of columns, in a square of patches."""
    side = round(len(query) ** 0.5)
    row, column = np.divmod(np.arange(side**2), side)
    rows, columns = (
        params[name][own[:, None] - own[None] + side - 1] for name, own in (("rows", row), ("columns", column))
    )
    return np.einsum("qhk,qsk->hqs", query, rows + columns)


KINDS: dict[str, tuple[type[Attention], dict[str, int], Windows, Callable[..., np.ndarray]]] = {
    "windows": (WindowAttention, {"side": 2}, Windows(GRID, 2), by_table),
    "shifted": (WindowAttention, {"side": 2, "shift": 1}, Windows(GRID, 2, 1), by_table),
    "grid": (GridAttention, {"side": 2}, StridedWindows(GRID, 2), by_table),
    "decomposed": (DecomposedAttention, {"side": SIDE}, Windows(GRID, SIDE), decomposed),
    "decomposed windows": (DecomposedWindowAttention, {"side": 2}, Windows(GRID, 2), decomposed),
}


@pytest.mark.parametrize(
    "name", ["shifted", *(pytest.param(n, marks=pytest.mark.slow) for n in KINDS if n != "shifted")]
)
def test_a_prompt_is_in_every_window(name: str) -> None:
    """It has no bias, sees the whole window also where regions meet in it, and becomes the mean over windows."""
    kind, fields, windows, bias = KINDS[name]
    drawn: dict[str, Any] = {"kernel_init": KernelInit()}
    attention = kind(heads=H, **fields, **drawn)
    context = LayerContext(Mask(prefix=P), grid=GRID._replace(prefix=P))
    made = variables(attention, X, context)
    found = np.asarray(jax.jit(lambda params: attention.apply(params, jnp.asarray(X), context))(on_jax(made)))
    params, segments = made["params"], windows.segments(1)
    parts = {
        n: np.einsum("bld,dhk->blhk", X, params[n]["kernel"]) + params[n]["bias"] for n in ("query", "key", "value")
    }
    prompts: list[np.ndarray] = []
    want = np.zeros((*X.shape[:2], H, K))
    for number, tokens in enumerate(np.asarray(windows.tokens())):
        where = [*range(P), *(P + tokens)]
        query, key, value = (part[:, where] for part in parts.values())
        scores = np.einsum("bqhk,bshk->bhqs", query, key) / K**0.5
        scores[:, :, P:, P:] += np.stack([bias(params, each[P:]) for each in query])
        if segments is not None:
            own = np.asarray(segments[number])
            scores[:, :, P:, P:] += np.where(own[:, None] == own[None], 0, -np.inf)
        seen = np.einsum("bhqs,bshk->bqhk", softmax(scores, -1), value)
        prompts.append(seen[:, :P])
        want[:, where[P:]] = seen[:, P:]
    want[:, :P] = np.mean(prompts, 0)
    want = np.einsum("blhk,hkd->bld", want, params["out"]["kernel"]) + params["out"]["bias"]
    np.testing.assert_allclose(found, want, atol=1e-5)
