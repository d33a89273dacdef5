"""Sentence classifiers: padding, inputs of their heads, dropout's formula, and parameters under Bert's paths."""

from typing import Any

import jax
import numpy as np
import pytest

from txjax.models import Bert, BertClassifier, Decoder, DecoderClassifier, NextSentence
from txjax.models.text.encoder import MeanTokens
from txjax.types import flat_paths

from made import dense, numbers, shapes, variables

V, D = 11, 8
TOKENS = np.random.default_rng(0).integers(0, V, (2, 5)).astype(np.int32)
SEGMENTS = np.asarray([[1, 1, 1, 0, 0], [1, 1, 1, 1, 1]], np.int32)
SIZES: dict[str, Any] = {"vocab": V, "width": D, "depth": 2, "heads": 2}


def observed(model: Any) -> Any:
    """The model's outputs and its sown features, jitted."""

    def apply(weights: Any, *args: Any, **kwargs: Any) -> Any:
        output, state = model.apply(weights, *args, **kwargs, mutable=["intermediates"])
        return dense(output), state["intermediates"]["features"][0]

    return jax.jit(apply, static_argnames="train")


@pytest.mark.parametrize("kind", [BertClassifier, DecoderClassifier])
def test_padding_changes_nothing(kind: Any) -> None:
    model = kind(**SIZES, classes=3)
    weights, apply = variables(model, TOKENS), observed(model)
    padded, features = apply(weights, TOKENS, SEGMENTS)
    assert padded.shape == (2, 3) and features.shape == (2, D)
    other = np.where(SEGMENTS > 0, TOKENS, (TOKENS + 1) % V)
    np.testing.assert_allclose(apply(weights, other, SEGMENTS)[0], padded, atol=1e-6)
    short, short_features = apply(weights, TOKENS[:1, :3], SEGMENTS[:1, :3])
    np.testing.assert_allclose(padded[:1], short, atol=1e-5)
    np.testing.assert_allclose(features[:1], short_features, atol=1e-5)
    head = weights["params"]["head"]
    np.testing.assert_allclose(padded, np.asarray(features) @ head["kernel"] + head["bias"], atol=1e-5)


def test_bert_classifier_reads_the_pooler_of_bert() -> None:
    """The same parameters, under the same paths, give the input of Bert's next-sentence head."""
    bert, model = Bert(**SIZES, next_sentence=NextSentence()), BertClassifier(**SIZES, classes=2)
    whole, own = (flat_paths(shapes(m, TOKENS)["params"]) for m in (bert, model))
    shared = {path: leaf for path, leaf in own.items() if path.split("/")[0] not in ("pooler", "head")}
    assert shared.items() <= whole.items()
    assert {path.split("/")[0] for path in whole.keys() - shared.keys()} == {
        "transform",
        "norm_transform",
        "head",
        "next_sentence",
    }
    weights = variables(bert, TOKENS)["params"]
    pair = weights["next_sentence"]
    moved = weights | {"pooler": pair["pooler"], "head": pair["linear"]}
    types = np.asarray([[0, 0, 1, 1, 1]] * 2, np.int32)
    (_, wanted), features = observed(bert)({"params": weights}, TOKENS, SEGMENTS, types=types)
    given, _ = observed(model)({"params": moved}, TOKENS, SEGMENTS, types=types)
    np.testing.assert_allclose(given, wanted, atol=1e-6)
    assert features.shape == (2, D)


def test_the_mean_over_real_tokens_has_no_pooler_and_is_what_bert_sows() -> None:
    bert, model = Bert(**SIZES), BertClassifier(**SIZES, classes=3, pool=MeanTokens())
    weights = variables(bert, TOKENS)["params"]
    own = variables(model, TOKENS)["params"]
    assert "pooler" not in own and own.keys() - {"head"} < weights.keys()
    moved = {name: weights[name] for name in own.keys() - {"head"}} | {"head": own["head"]}
    _, wanted = observed(bert)({"params": weights}, TOKENS, SEGMENTS)
    _, features = observed(model)({"params": moved}, TOKENS, SEGMENTS)
    np.testing.assert_allclose(features, wanted, atol=1e-6)


def test_a_decoder_has_the_mean_of_its_real_tokens_as_features() -> None:
    """With a head that is the identity, logits are the features of each token."""
    model = Decoder(**SIZES | {"vocab": D})
    weights = variables(model, TOKENS % D)
    weights["params"]["embed"]["embedding"] = np.linalg.qr(numbers(D, D))[0]
    logits, features = observed(model)(weights, TOKENS % D, SEGMENTS)
    by_token = np.asarray(logits) @ weights["params"]["embed"]["embedding"]
    real = SEGMENTS[..., None] > 0
    np.testing.assert_allclose(features, (by_token * real).sum(1) / real.sum(1), atol=1e-4)


def test_dropout_before_the_head_keeps_and_scales() -> None:
    """Srivastava et al. 2014: kept with probability 1 - rate, over 1 - rate. The head is an identity."""
    rate, count = 0.25, 200
    model = BertClassifier(**SIZES, classes=D, dropout=rate)
    tokens = np.tile(TOKENS[:1], (count, 1))
    weights = variables(model, tokens)
    weights["params"]["head"] = {"kernel": np.eye(D, dtype=np.float32), "bias": np.zeros(D, np.float32)}
    apply, key = observed(model), jax.random.key(0, impl="rbg")
    given, features = apply(weights, tokens, train=True, rngs={"dropout": key})
    kept = np.asarray(given) != 0
    np.testing.assert_allclose(given, np.where(kept, features / (1 - rate), 0), rtol=1e-6)
    assert abs(kept.mean() - (1 - rate)) < 4 * (rate * (1 - rate) / kept.size) ** 0.5
    assert features.std(0).max() > 1e-3  # the layers before dropped others in each example
    still, features = apply(weights, tokens)
    np.testing.assert_array_equal(still, features)
