"""Cells equal PyTorch's, in both directions and with padding; alignments equal their formulas."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from txjax.models.text.recurrent import GRU, LSTM, Additive, Alignment, Annotations, Bidirectional, Cell, Dot, General
from txjax.nn import KernelInit
from txjax.types import UserError

from helpers.arrays import numbers, variables

pytestmark = pytest.mark.claim(
    "Models and objectives",
    "recurrent cells equal PyTorch's in both directions, alignments their formulas (cells need torch)",
)

D = 6  # states
C = 5  # inputs
S = 7
DRAWN: dict[str, Any] = {"width": D, "use_bias": True, "kernel_init": KernelInit()}
LENGTHS = [7, 4]
REAL = np.arange(S)[None] < np.array(LENGTHS)[:, None]


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "cell"), [("GRU", GRU(reset="after", **DRAWN)), ("LSTM", LSTM(**DRAWN))])
def test_both_directions_equal_pytorch(kind: str, cell: Cell) -> None:
    torch = pytest.importorskip("torch")
    layer, x = Bidirectional(cell), numbers(2, S, C)
    params = variables(layer, x, token_mask=REAL)
    theirs = getattr(torch.nn, kind)(C, D, batch_first=True, bidirectional=True).eval()
    state = {}
    for name, suffix in (("forward", ""), ("backward", "_reverse")):
        own = params["params"][name]
        parts = {"ih": own["input"], "hh": own["steps"]["cell"]["recurrent"]}
        for where, part in parts.items():
            kernel = part["kernel"].transpose(1, 2, 0).reshape(-1, part["kernel"].shape[0])
            bias = part["bias"].reshape(-1) if "bias" in part else np.zeros(len(kernel), np.float32)
            state |= {
                f"weight_{where}_l0{suffix}": torch.tensor(kernel),
                f"bias_{where}_l0{suffix}": torch.tensor(bias),
            }
    theirs.load_state_dict(state)
    packed = torch.nn.utils.rnn.pack_padded_sequence(torch.tensor(x), torch.tensor(LENGTHS), batch_first=True)
    with torch.no_grad():
        want, _ = torch.nn.utils.rnn.pad_packed_sequence(theirs(packed)[0], batch_first=True)
    got = jnp.concatenate(jax.jit(layer.apply)(params, jnp.asarray(x), jnp.asarray(REAL)), -1)
    np.testing.assert_allclose(np.asarray(got)[REAL], want.numpy()[REAL], atol=1e-6)


def softmax(x: np.ndarray) -> np.ndarray:
    return np.exp(x) / np.exp(x).sum(-1, keepdims=True)


@pytest.mark.parametrize("alignment", [Additive(size=4, **DRAWN), General(**DRAWN), Dot(**DRAWN)])
def test_alignments_equal_their_formulas(alignment: Alignment) -> None:
    query, values = numbers(2, 3, D), numbers(2, S, D, seed=1)
    keys = numbers(2, S, 4 if isinstance(alignment, Additive) else D, seed=2)
    source = Annotations(*map(jnp.asarray, (keys, values, REAL)))
    params = variables(alignment, query, source)
    context, weights = alignment.apply(params, jnp.asarray(query), source)
    for row, length in enumerate(LENGTHS):
        for t, state in enumerate(query[row]):
            if isinstance(alignment, Additive):
                w, v = (params["params"][name]["kernel"] for name in ("query", "scores"))
                scores = np.array([v[:, 0] @ np.tanh(w.T @ state + key) for key in keys[row, :length]])
            else:
                scores = keys[row, :length] @ state
            want = softmax(scores)
            np.testing.assert_allclose(weights[row, t, :length], want, atol=1e-6)
            np.testing.assert_allclose(context[row, t], want @ values[row, :length], atol=1e-5)
    assert not np.asarray(weights)[1, :, LENGTHS[1] :].any()


def test_states_and_values_of_two_sizes_have_no_dot_product() -> None:
    with pytest.raises(UserError, match=r"config\.model\.alignment: expected .* states of 6 .* output of 5.*General"):
        Dot(**DRAWN).keys(jnp.zeros((2, S, C)))
