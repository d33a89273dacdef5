"""The table of an n-gram: Witten and Bell's formula for every context, written again."""

import itertools

import numpy as np
import pytest

from txjax.decoding import Ngram
from txjax.types import UserError

pytestmark = pytest.mark.claim("Generation", "the n-gram of a prefix beam has the formula of Witten and Bell")

TEXTS = [(0, 1, 0, 2), (1, 1), (), (2, 0, 1, 0, 1)]
S, BORDER = 4, 3  # three symbols and the border


def probability(symbol, context):
    """By counting, in recursion over shorter contexts."""
    if context is None:
        return 1 / S
    followers = []
    for text in TEXTS:
        padded = [BORDER] * len(context) + [*text, BORDER]
        windows = (tuple(padded[i : i + len(context) + 1]) for i in range(len(text) + 1))
        followers += [window[-1] for window in windows if window[:-1] == context]
    shorter = probability(symbol, context[1:] if context else None)
    kinds = len(set(followers))
    return (followers.count(symbol) + kinds * shorter) / (len(followers) + kinds) if followers else shorter


@pytest.mark.parametrize("order", [1, 2, 3, 4])
def test_the_table_has_the_formula(order):
    table = Ngram(order).table(TEXTS, symbols=3)
    contexts = list(itertools.product(range(S), repeat=order - 1))
    wanted = [[probability(symbol, context) for symbol in range(S)] for context in contexts]
    np.testing.assert_allclose(np.exp(table), wanted, rtol=1e-5)
    np.testing.assert_allclose(np.exp(table).sum(1), 1, rtol=1e-5)


def test_without_texts_all_symbols_are_equally_likely():
    np.testing.assert_allclose(Ngram(2).table([], symbols=3), np.log(0.25), rtol=1e-6)


def test_a_table_that_is_too_large_is_refused():
    Ngram(4).check("x", 75)
    with pytest.raises(UserError, match=r"x\.order: expected an order whose table of 1000 symbols has at most 33,5"):
        Ngram(3).check("x", 1000)
