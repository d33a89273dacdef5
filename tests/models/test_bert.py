"""The encoder: attention in both directions, masked padding, and its two heads."""

import numpy as np
import pytest

from txjax.models.text.bert import Bert
from txjax.nn import Encoded, Learned, MaskedTokens, NextSentence, PlainMaskedTokens, Stack, Untied
from txjax.types import UserError

from helpers.arrays import Headed, call, forward, shapes, variables

V = 11
PAIRS = MaskedTokens(next_sentence=NextSentence())
TOKENS = np.random.default_rng(0).integers(0, V, (2, 5)).astype(np.int32)


def bert(**fields: object) -> Bert:
    return Bert(**{"vocab": V, "width": 8, "depth": 2, "heads": 2, "positions": Learned(max_length=5), **fields})


def test_padding_changes_nothing_for_the_rest() -> None:
    model = bert(head=PAIRS)
    params, apply = variables(model, TOKENS), forward(model)
    segments = np.asarray([[1, 1, 1, 0, 0]] * 2, np.int32)
    logits, pair = apply(params, TOKENS, segments)
    assert logits.shape == (2, 5, V) and pair.shape == (2, 2)
    short, short_pair = apply(params, TOKENS[:, :3])
    np.testing.assert_allclose(logits[:, :3], short, atol=1e-5)
    np.testing.assert_allclose(pair, short_pair, atol=1e-5)


def test_the_kin_of_bert() -> None:
    """Types that are one or none change nothing; factorised embeddings and shared layers have their shapes."""
    for types in (1, None):
        model = bert(types=types)
        params, apply = variables(model, TOKENS), forward(model)
        assert ("embed_types" in params["params"]) == (types == 1)
        kinds = np.asarray([[0, 0, 1, 1, 1]] * 2, np.int32)
        np.testing.assert_array_equal(apply(params, TOKENS)[0], apply(params, TOKENS, types=kinds)[0])
    found = shapes(bert(embed_width=6, depth=4, stack=Stack(groups=2)), TOKENS)["params"]
    assert found["embed"]["embedding"].shape == (V, 6) and found["embed_in"]["kernel"].shape == (6, 8)
    assert found["transform"]["kernel"].shape == (8, 6) and found["head"]["bias"].shape == (V,)
    assert found["layers"]["block"]["mlp"]["up"]["kernel"].shape == (2, 8, 32)


def test_a_token_sees_both_sides_and_its_sentence() -> None:
    model = bert()
    params, apply = variables(model, TOKENS), forward(model)
    logits, pair = apply(params, TOKENS)
    assert pair is None
    other = TOKENS.copy()
    other[:, [0, 4]] = (other[:, [0, 4]] + 1) % V
    assert not np.allclose(logits[:, 2], apply(params, other)[0][:, 2])
    types = np.asarray([[0, 0, 1, 1, 1]] * 2, np.int32)
    assert not np.allclose(logits, apply(params, TOKENS, types=types)[0])
    np.testing.assert_array_equal(logits, apply(params, TOKENS, types=np.zeros_like(types))[0])


def test_the_next_sentence_head_is_the_pooler_and_a_classifier() -> None:
    x = np.random.default_rng(1).normal(size=(2, 3, 4)).astype(np.float32)
    head = Headed(NextSentence())
    p = variables(head, Encoded(x))["params"]
    pooled = np.tanh(x[:, 0] @ p["pooler"]["kernel"] + p["pooler"]["bias"])
    want = pooled @ p["next_sentence"]["kernel"] + p["next_sentence"]["bias"]
    np.testing.assert_allclose(call(head.apply, {"params": p}, Encoded(x)), want, atol=1e-5)


@pytest.mark.parametrize(("fields", "present"), [({}, False), ({"head": MaskedTokens(Untied(), NextSentence())}, True)])
def test_heads_are_passed_in(fields: dict, present: bool) -> None:
    params = shapes(bert(**fields), TOKENS)["params"]
    assert ("next_sentence" in params) == present
    assert ("linear" in params["head"]) == present
    assert "norm_final" not in params  # post-norm blocks end in a norm of their own


def test_languages_are_vectors_of_their_own() -> None:
    model = bert(types=None, languages=3, head=PlainMaskedTokens())
    params = shapes(model, TOKENS, languages=TOKENS % 3)["params"]
    assert set(params) == {"embed", "embed_languages", "positions", "norm_embed", "layers", "head"}
    assert params["embed_languages"]["embedding"].shape == (3, 8)
    assert "embed_languages" not in shapes(bert(), TOKENS, languages=TOKENS % 3)["params"]  # ignored
    with pytest.raises(UserError, match=r"config.data: expected examples with `languages`.*languages is 3"):
        shapes(model, TOKENS)
