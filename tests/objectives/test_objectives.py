"""Losses and metrics against their formulas, with stub models that return given outputs."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from txjax.data import TextWindows
from txjax.models.text.bert import Bert
from txjax.objectives import Classification, MaskedPatch, MaskedToken, NextToken
from txjax.types import UserError

from helpers.arrays import Echo, call, numbers

KEY = jax.random.key(0)
B = 3
L = 4
V = 5


def log_softmax(logits: np.ndarray) -> np.ndarray:
    return logits - np.log(np.exp(logits).sum(-1, keepdims=True))


def text(**more: Any) -> dict[str, Any]:
    rng = np.random.default_rng(1)
    tokens, targets = rng.integers(0, V, (2, B, L)).astype(np.int32)
    weights = np.asarray([[1, 1, 1, 1], [1, 1, 0, 0], [0, 0, 0, 0]], np.float32)
    return {"id": np.arange(B, dtype=np.int32), "tokens": tokens, "targets": targets, "weights": weights, **more}


def test_next_token() -> None:
    batch, logits = text(segments=np.ones((B, L), np.int32)), numbers(B, L, V)
    model = Echo(logits)
    outcome = call(NextToken(), model, {"params": {}}, batch, KEY, False)
    chosen = np.take_along_axis(log_softmax(logits), batch["targets"][..., None], -1)[..., 0]
    loss, accuracy = outcome.losses["next_token"], outcome.metrics["accuracy"]
    np.testing.assert_allclose(loss.total, -(chosen * batch["weights"]).sum(), rtol=1e-5)
    assert loss.count == accuracy.count == 6
    assert accuracy.total == ((logits.argmax(-1) == batch["targets"]) * batch["weights"]).sum()
    assert set(model.inputs) == {"tokens", "segments", "train"}  # never the targets


def test_collections_and_dropout_keys() -> None:
    variables, logits = {"params": {}, "stats": "before"}, numbers(B, L, V)
    model = Echo(logits)
    assert call(NextToken(), model, variables, text(), KEY, False).model_state == {"stats": "before"}
    assert model.rngs is None
    assert call(NextToken(), model, variables, text(), KEY, True).model_state == {"stats": "changed"}
    first = model.rngs["dropout"]
    call(NextToken(), model, variables, text(id=np.asarray([7, 8, 9])), KEY, True)
    assert first != model.rngs["dropout"]  # another microbatch of the same step


def corrupt(objective: MaskedToken, ids: np.ndarray, tokens: np.ndarray, weights: np.ndarray) -> Any:
    """The tokens after masking, and which were chosen: bool [B L]."""
    keys = jax.vmap(jax.random.fold_in, (None, 0))(KEY, ids)
    hidden, positions, among = jax.tree.map(np.asarray, jax.jit(jax.vmap(objective.corrupt))(keys, tokens, weights))
    chosen = np.zeros(tokens.shape, bool)
    np.put_along_axis(chosen, positions, among, -1)
    assert chosen.sum() == among.sum()  # no position twice
    return hidden, chosen


def test_masked_tokens_are_15_percent_80_10_10() -> None:
    n = 500
    length = 200
    vocab = 1000
    objective = MaskedToken(mask_id=vocab, vocab=vocab)
    tokens = np.random.default_rng(0).integers(0, vocab, (n, length)).astype(np.int32)
    weights = np.ones((n, length), np.float32)
    weights[:, :100] = 0
    hidden, chosen = corrupt(objective, np.arange(n), tokens, weights)
    assert (chosen.sum(-1) == 15).all() and not chosen[:, :100].any()
    np.testing.assert_array_equal(hidden[~chosen], tokens[~chosen])
    masked, same = hidden[chosen] == vocab, hidden[chosen] == tokens[chosen]
    assert abs(masked.mean() - 0.8) < 0.02 and abs(same.mean() - 0.1) < 0.015
    random = hidden[chosen][~masked & ~same]
    assert abs(random.mean() / (vocab / 2) - 1) < 0.1 and random.max() < vocab
    # Every position is equally likely: 75 of 500 expected, standard deviation 8.
    assert abs(chosen[:, 100:].sum(0) - 75).max() < 40

    again, _ = corrupt(objective, np.arange(n)[::-1].copy(), tokens[::-1].copy(), weights)
    np.testing.assert_array_equal(again[::-1], hidden)


def test_masked_token_counts_at_least_one_and_nothing_of_nothing() -> None:
    objective = MaskedToken(mask_id=0, vocab=V)
    _, chosen = corrupt(objective, np.arange(B), text()["tokens"], text()["weights"])
    np.testing.assert_array_equal(chosen.sum(-1), [1, 1, 0])
    empty = text(weights=np.zeros((B, L), np.float32))
    outcome = call(objective, Echo((numbers(B, L, V), None)), {"params": {}}, empty, KEY, False)
    assert outcome.losses["masked_token"].count == 0 and outcome.losses["masked_token"].value == 0


def test_masked_token_and_next_sentence_losses() -> None:
    batch = text(next_sentence=np.asarray([1, 0, 1], np.int32), types=np.zeros((B, L), np.int32))
    logits, pairs = numbers(B, L, V), numbers(B, 2, seed=1)
    objective = MaskedToken(mask_id=0, vocab=V, rate=1.0, mask=1.0, random=0.0)
    model = Echo((logits, pairs))
    outcome = call(objective, model, {"params": {}}, batch, KEY, False)
    np.testing.assert_array_equal(model.inputs["tokens"], np.where(batch["weights"] > 0, 0, batch["tokens"]))
    chosen = np.take_along_axis(log_softmax(logits), batch["tokens"][..., None], -1)[..., 0]
    want = -(chosen * batch["weights"]).sum() / 6
    np.testing.assert_allclose(outcome.losses["masked_token"].value, want, rtol=1e-5)
    want = -log_softmax(pairs)[[0, 1], [1, 0]].mean()  # the third example is padding
    np.testing.assert_allclose(outcome.losses["next_sentence"].value, want, rtol=1e-5)
    assert outcome.metrics["next_sentence_accuracy"].count == 2
    some = call(
        objective, model, {"params": {}}, batch | {"next_sentence": np.asarray([-1, 0, 1], np.int32)}, KEY, False
    )
    np.testing.assert_allclose(some.losses["next_sentence"].value, -log_softmax(pairs)[1, 0], rtol=1e-5)
    assert some.metrics["next_sentence_accuracy"].count == 1  # the first example is no pair
    with pytest.raises(UserError, match=r"config\.model\.head\.next_sentence"):
        call(objective, Echo((logits, None)), {"params": {}}, batch, KEY, False)


def test_masked_patch_is_the_error_of_hidden_patches() -> None:
    image, painted = numbers(2, 4, 4, 3), numbers(2, 4, 12, seed=1)
    batch = {"id": np.asarray([3, 9]), "image": image, "weights": np.ones(2, np.float32)}
    patches = image.reshape(2, 2, 2, 2, 2, 3).transpose(0, 1, 3, 2, 4, 5).reshape(2, 4, 12)
    normal = (patches - patches.mean(-1, keepdims=True)) / patches.std(-1, keepdims=True)
    for target, want in (("normalised", normal), ("pixels", patches)):
        model = Echo(painted)
        loss = call(MaskedPatch(target=target), model, {"params": {}}, batch, KEY, False).losses["masked_patch"]
        hidden = np.ones((2, 4))
        np.put_along_axis(hidden, np.asarray(model.inputs["keep"]), 0, -1)
        assert loss.count == hidden.sum() == 6
        np.testing.assert_allclose(loss.total, (((painted - want) ** 2).mean(-1) * hidden).sum(), rtol=1e-4)
    every = call(MaskedPatch(scored="all"), Echo(painted), {"params": {}}, batch, KEY, False).losses["masked_patch"]
    assert every.count == 8
    np.testing.assert_allclose(every.total, ((painted - normal) ** 2).mean(-1).sum(), rtol=1e-4)


def test_kept_patches_are_drawn_by_example() -> None:
    objective, ids = MaskedPatch(), np.arange(400)
    keep = np.asarray(call(objective.keep, KEY, {"id": ids}, 4, 4))
    assert keep.shape == (400, 4) and keep.dtype == np.int32
    assert (np.diff(keep) > 0).all() and keep.min() == 0 and keep.max() == 15
    assert abs(np.bincount(keep.ravel()) - 100).max() < 45  # uniform: standard deviation 9
    np.testing.assert_array_equal(call(objective.keep, KEY, {"id": ids[::-1].copy()}, 4, 4)[::-1], keep)
    with pytest.raises(UserError, match=r"config\.objective\.rate"):
        call(MaskedPatch(rate=0.99).keep, KEY, {"id": ids}, 4, 4)


def test_classification() -> None:
    logits, label = numbers(3, 4), np.asarray([1, 0, 3], np.int32)
    batch = {"id": np.arange(3), "image": np.zeros(3), "label": label, "weights": np.asarray([1, 2, 0], np.float32)}
    outcome = call(Classification(), Echo(logits), {"params": {}}, batch, KEY, False)
    want = -(log_softmax(logits)[np.arange(3), label] * batch["weights"]).sum() / 3
    np.testing.assert_allclose(outcome.losses["classification"].value, want, rtol=1e-5)
    assert outcome.metrics["accuracy"].count == 3


def test_losses_are_float32_for_bfloat16_logits() -> None:
    outcome = call(NextToken(), Echo(jnp.asarray(numbers(B, L, V), jnp.bfloat16)), {"params": {}}, text(), KEY, False)
    assert outcome.losses["next_token"].total.dtype == jnp.float32


def test_the_mask_is_never_a_token_of_text() -> None:
    data = TextWindows(name="txjax_python_text", length=L)
    model = Bert(vocab=257, width=8, depth=1, heads=2)
    MaskedToken(mask_id=256, vocab=256).check(model, data)  # bytes end at 255
    with pytest.raises(UserError, match=r"objective\.mask_id: .* special token, .* got '101, a token of text"):
        MaskedToken(mask_id=101, vocab=256).check(model, data)
