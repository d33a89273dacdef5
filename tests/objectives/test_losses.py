"""Cross entropy and its added terms against their formulas, in training and in evaluations."""

import dataclasses
from typing import Any

import jax
import numpy as np
import pytest

from txjax.models.cards import cards
from txjax.objectives import (
    Classification,
    CrossEntropy,
    MaskedToken,
    NextToken,
    Regression,
    SigmoidCrossEntropy,
    missing_keys,
)
from txjax.types import UserError

from helpers.arrays import Echo, call, numbers

pytestmark = pytest.mark.claim("Attention kernels", "chunks change neither losses nor gradients")

B = 3
L = 4
V = 5
LOGITS = 3 * numbers(B, L, V)
TARGETS = np.random.default_rng(1).integers(0, V, (B, L)).astype(np.int32)
WEIGHTS = np.asarray([[1, 1, 1, 1], [1, 2, 0, 0], [0, 0, 0, 0]], np.float32)


def one_hot(targets: np.ndarray) -> np.ndarray:
    return np.eye(V)[targets]


def against(wanted: np.ndarray) -> np.ndarray:
    """The mean cross entropy of a distribution [B L V] for each target."""
    log_p = LOGITS - np.log(np.exp(LOGITS).sum(-1, keepdims=True))
    return (-(wanted * log_p).sum(-1) * WEIGHTS).sum() / WEIGHTS.sum()


def losses(loss: CrossEntropy, train: bool = True, mixed: Any = None) -> tuple[dict[str, float], dict[str, float]]:
    sums = call(loss, "plain", LOGITS, TARGETS, WEIGHTS, train, mixed=mixed)
    assert all(mean.count == WEIGHTS.sum() for part in sums for mean in part.values())
    return tuple({name: float(mean.value) for name, mean in part.items()} for part in sums)  # type: ignore[return-value]


def test_plain() -> None:
    terms, metrics = losses(CrossEntropy())
    assert set(terms) == {"plain"} and set(metrics) == {"accuracy"}
    np.testing.assert_allclose(terms["plain"], against(one_hot(TARGETS)), rtol=1e-5)
    right = (LOGITS.argmax(-1) == TARGETS) * WEIGHTS
    np.testing.assert_allclose(metrics["accuracy"], right.sum() / WEIGHTS.sum(), rtol=1e-6)


def test_label_smoothing_is_the_cross_entropy_of_a_mixture_with_the_uniform_distribution() -> None:
    terms, _ = losses(CrossEntropy(label_smoothing=0.1))
    np.testing.assert_allclose(sum(terms.values()), against(0.9 * one_hot(TARGETS) + 0.1 / V), rtol=1e-5)
    np.testing.assert_allclose(terms["plain"], against(one_hot(TARGETS)), rtol=1e-5)


def test_z_loss_is_the_square_of_log_z() -> None:
    terms, _ = losses(CrossEntropy(z_loss=1e-2))
    log_z = np.log(np.exp(LOGITS).sum(-1))
    np.testing.assert_allclose(terms["z_loss"], (1e-2 * log_z**2 * WEIGHTS).sum() / WEIGHTS.sum(), rtol=1e-5)


def test_mixed_targets_count_by_their_shares() -> None:
    other, share = (TARGETS + 1) % V, np.random.default_rng(2).uniform(size=(B, L)).astype(np.float32)
    terms, metrics = losses(CrossEntropy(label_smoothing=0.1), mixed=(other, share))
    wanted = share[..., None] * one_hot(TARGETS) + (1 - share[..., None]) * one_hot(other)
    np.testing.assert_allclose(sum(terms.values()), against(0.9 * wanted + 0.1 / V), rtol=1e-5)
    best = LOGITS.argmax(-1)
    right = share * (best == TARGETS) + (1 - share) * (best == other)
    np.testing.assert_allclose(metrics["accuracy"], (right * WEIGHTS).sum() / WEIGHTS.sum(), rtol=1e-5)


def test_an_evaluation_and_a_chunk_see_the_same_cross_entropy() -> None:
    loud = CrossEntropy(label_smoothing=0.1, z_loss=1e-2)
    assert losses(loud, train=False) == losses(CrossEntropy())
    both = zip(losses(loud), losses(CrossEntropy(label_smoothing=0.1, z_loss=1e-2, chunk=3)), strict=True)
    for whole, parts in both:
        assert whole.keys() == parts.keys() and len(whole) in (1, 3)
        np.testing.assert_allclose([parts[name] for name in whole], list(whole.values()), rtol=1e-5)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("objective", "term", "output"),
    [
        (NextToken(), "next_token", LOGITS),
        (MaskedToken(mask_id=0, vocab=V), "masked_token", (LOGITS, None)),
        (Classification(), "classification", LOGITS[:, 0]),
    ],
)
def test_objectives_pass_their_loss_on(objective: Any, term: str, output: Any) -> None:
    of_tokens = {"tokens": TARGETS, "targets": TARGETS, "weights": WEIGHTS}
    of_examples = {"image": TARGETS, "label": TARGETS[:, 0], "weights": WEIGHTS[:, 1]}
    batch = {"id": np.arange(B)} | (of_examples if term == "classification" else of_tokens)
    seen = {}
    for chunk in (None, 2):
        loud = dataclasses.replace(objective, loss=CrossEntropy(label_smoothing=0.1, z_loss=1e-2, chunk=chunk))
        seen[chunk] = call(loud, Echo(output), {"params": {}}, batch, jax.random.key(0), True)
        assert set(seen[chunk].losses) == {term, "label_smoothing", "z_loss"}
        assert set(call(loud, Echo(output), {"params": {}}, batch, jax.random.key(0), False).losses) == {term}
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-5), seen[2], seen[None])
    assert set(call(objective, Echo(output), {"params": {}}, batch, jax.random.key(0), True).losses) == {term}


def test_regression_is_the_squared_error_of_the_value() -> None:
    numbers, value = np.asarray([[1.5], [2], [7]], np.float32), np.asarray([0.5, 4, 0], np.float32)
    batch = {"id": np.arange(3), "tokens": TARGETS, "value": value, "weights": np.asarray([1, 0.5, 0], np.float32)}
    outcome = call(Regression(), Echo(numbers), {"params": {}}, batch, jax.random.key(0), False)
    assert outcome.losses["regression"].total == 1 + 0.5 * 4 and outcome.losses["regression"].count == 1.5
    assert outcome.metrics["absolute_error"].total == 1 + 0.5 * 2
    with pytest.raises(UserError, match=r"config\.model\.head\.classes: expected 1"):
        call(Regression(), Echo(LOGITS[:, 0]), {"params": {}}, batch, jax.random.key(0), False)


def test_mixed_labels_of_images() -> None:
    logits = LOGITS[:2, 0]
    label = TARGETS[:2, 0]
    other = TARGETS[:2, 1]
    batch = {"id": np.arange(2), "image": TARGETS, "weights": np.asarray([1, 0.5], np.float32)}
    batch |= {"label": label, "other_label": other, "mix": np.asarray([0.25, 1], np.float32)}
    outcome = call(Classification(), Echo(logits), {"params": {}}, batch, jax.random.key(0), True)
    log_p = logits - np.log(np.exp(logits).sum(-1, keepdims=True))
    want = -0.25 * log_p[0, label[0]] - 0.75 * log_p[0, other[0]] - 0.5 * log_p[1, label[1]]
    np.testing.assert_allclose(outcome.losses["classification"].total, want, rtol=1e-5)


def test_models_that_are_no_classifiers_are_refused() -> None:
    batch = {"id": np.arange(B), "tokens": TARGETS, "label": TARGETS[:, 0], "weights": WEIGHTS[:, 0]}
    with pytest.raises(UserError, match=r"config\.model: expected a model that returns .*Classification.* 'Echo'"):
        call(Classification(), Echo(LOGITS), {"params": {}}, batch, jax.random.key(0), False)


def test_alternative_required_keys() -> None:
    needs = ("id", "image | tokens", "weights")
    assert not missing_keys(needs, ["id", "tokens", "weights"])
    assert not missing_keys(needs, ["id", "image", "tokens", "weights"])
    assert missing_keys(needs, ["id", "label", "weights"]) == ["image | tokens"]


def test_a_model_reads_the_modalities_of_its_call_with_what_describes_them() -> None:
    batch = dict.fromkeys(("id", "image", "tokens", "segments", "features", "features_length", "label"), TARGETS)
    models = {example.name: example.model for card in cards().values() for example in card.examples}
    objective, vit, bert = Classification(), models["ViT"], models["Bert"]
    assert set(objective.inputs(vit, batch)) == {"image"}
    assert set(objective.inputs(bert, batch)) == {"tokens", "segments"}
    with pytest.raises(UserError, match=r"config\.data: expected examples with image, which ViT reads, got .*none"):
        objective.check_model(vit, {"id": TARGETS, "tokens": TARGETS})


ROWS = LOGITS[0]  # four examples of five classes
SHARES = np.asarray([[1, 0, 1, 0, 0], [0, 0, 0, 0, 0], [0.3, 0, 0, 0.7, 0], [0, 1, 0, 0, 0]], np.float32)
WEIGHTS_OF_ROWS = np.asarray([1, 2, 1, 0], np.float32)


def test_sigmoid_cross_entropy_is_of_each_class_by_itself() -> None:
    """And equal for one class each, and for a mixture of two."""
    terms, metrics = call(SigmoidCrossEntropy(), "x", ROWS, SHARES, WEIGHTS_OF_ROWS, True)
    p = 1 / (1 + np.exp(-ROWS))
    wanted = -(SHARES * np.log(p) + (1 - SHARES) * np.log(1 - p)).mean(1)
    assert terms["x"].value == pytest.approx((wanted * WEIGHTS_OF_ROWS).sum() / 4, rel=1e-5)
    right = SHARES[np.arange(4), ROWS.argmax(1)]
    assert metrics["accuracy"].value == pytest.approx((right * WEIGHTS_OF_ROWS).sum() / 4, rel=1e-6)
    label, other, share = (np.asarray(x) for x in ([0, 3, 3, 1], [2, 4, 0, 1], np.float32([0.4, 1, 0.7, 1])))
    mixed = share[:, None] * one_hot(label) + (1 - share)[:, None] * one_hot(other)
    one = call(SigmoidCrossEntropy(), "x", ROWS, mixed.astype(np.float32), WEIGHTS_OF_ROWS, True)
    two = call(SigmoidCrossEntropy(), "x", ROWS, label, WEIGHTS_OF_ROWS, True, mixed=(other, share))
    for ours, theirs in zip(jax.tree.leaves(one), jax.tree.leaves(two), strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-6)


def test_classification_of_several_classes_reads_labels() -> None:
    objective = Classification(loss=SigmoidCrossEntropy())
    assert objective.required_keys == ("id", "labels | label", "weights")
    batch = {"id": np.arange(4), "image": numbers(4, 2, 2, 1), "labels": SHARES, "weights": WEIGHTS_OF_ROWS}
    output = call(objective, Echo(ROWS), {}, batch, jax.random.key(0), False)
    alone = call(SigmoidCrossEntropy(), "classification", ROWS, SHARES, WEIGHTS_OF_ROWS, False)
    assert (output.losses, output.metrics) == alone
    with pytest.raises(UserError, match=r"config\.model\.head\.classes: expected 4, .* `labels` .*, got 5"):
        call(objective, Echo(ROWS), {}, batch | {"labels": SHARES[:, :4]}, jax.random.key(0), False)
