"""Heads of text models: padding, features, dropout's formula, parameters under Bert's paths, and composed models."""

from typing import Any

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from txjax.eval.features.frozen_features import features_of
from txjax.models.text.bert import Bert
from txjax.models.text.decoder import Decoder
from txjax.nn import Classes, Encoded, HeadContext, LastToken, MaskedTokens, MeanTokens, NextSentence, Pooler
from txjax.types import UserError, flat_paths

from helpers.arrays import dense, numbers, shapes, variables

pytestmark = pytest.mark.claim(
    "Models and objectives",
    "targets of tokens: classes of words, ends of answers; encoders as parts of other models, whose features count",
)

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


@pytest.mark.parametrize(("kind", "pool"), [(Bert, Pooler()), (Decoder, LastToken()), (Decoder, MeanTokens())])
def test_padding_changes_nothing(kind: Any, pool: Any) -> None:
    model = kind(**SIZES, head=Classes(3, pool))
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
    """Pairs and classes have the same pooler, under the same path; their linear layers have different names."""
    bert, model = (
        Bert(**SIZES, head=head) for head in (MaskedTokens(next_sentence=NextSentence()), Classes(2, Pooler()))
    )
    whole, own = (flat_paths(shapes(m, TOKENS)["params"]) for m in (bert, model))
    shared = {path: leaf for path, leaf in own.items() if path.split("/")[0] != "head"}
    assert "pooler/kernel" in shared
    assert shared.items() <= whole.items()
    assert {path.split("/")[0] for path in whole.keys() - shared.keys()} == {
        "transform",
        "norm_transform",
        "head",
        "next_sentence",
    }
    weights = variables(bert, TOKENS)["params"]
    moved = weights | {"head": weights["next_sentence"]}
    types = np.asarray([[0, 0, 1, 1, 1]] * 2, np.int32)
    (_, wanted), features = observed(bert)({"params": weights}, TOKENS, SEGMENTS, types=types)
    given, _ = observed(model)({"params": moved}, TOKENS, SEGMENTS, types=types)
    np.testing.assert_allclose(given, wanted, atol=1e-6)
    assert features.shape == (2, D)


def test_the_mean_over_real_tokens_has_no_pooler_and_is_what_bert_sows() -> None:
    bert, model = Bert(**SIZES), Bert(**SIZES, head=Classes(3, MeanTokens()))
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
    model = Bert(**SIZES, head=Classes(D, Pooler()), dropout=rate)
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


class Two(nn.Module):
    """Two encoders as they are, which may be of other kinds and sizes, and a head on both."""

    left: Any
    right: Any
    head: Any = None

    @nn.compact
    def __call__(self, tokens: Any, segments: Any = None, train: bool = False) -> Any:
        pair = self.left(tokens, segments, train=train), self.right(tokens, segments, train=train)
        if self.head is None:
            return pair
        joined = Encoded(jnp.concatenate([part.features for part in pair], -1), segments)
        return self.head(joined, HeadContext(self, train=train))


def test_encoders_are_parts_of_other_models_as_they_are() -> None:
    wide = Bert(vocab=V, width=12, depth=1, heads=2, head=None)
    model = Two(Bert(**SIZES, head=None), wide, Classes(3, MeanTokens()))
    weights = variables(model, TOKENS)
    given, features = observed(model)(weights, TOKENS, SEGMENTS)
    assert set(weights["params"]) == {"left", "right", "head"} and features.shape == (2, D + 12)
    parts = [
        jax.jit(part.apply)({"params": weights["params"][name]}, TOKENS, SEGMENTS)
        for name, part in (("left", Bert(**SIZES, head=None)), ("right", wide))
    ]
    joined = np.concatenate([part.features for part in parts], -1)
    mean = (joined * SEGMENTS[..., None]).sum(1) / SEGMENTS.sum(1, keepdims=True)
    np.testing.assert_allclose(features, mean, rtol=1e-4, atol=1e-5)
    head = weights["params"]["head"]
    np.testing.assert_allclose(given, mean @ head["kernel"] + head["bias"], rtol=1e-4, atol=1e-5)
    assert not weights["params"]["left"].keys() & {"head", "pooler", "transform"}


def test_features_are_the_model_s_own_or_those_of_the_only_part_that_has_any() -> None:
    """A generator's must never stand for its discriminator's."""
    inputs = {"tokens": jnp.asarray(TOKENS), "segments": jnp.asarray(SEGMENTS)}
    bare = Bert(**SIZES, head=None)
    whole = Two(bare, Bert(**SIZES, head=None), Classes(3, MeanTokens()))
    assert features_of(whole, variables(whole, TOKENS), inputs).shape == (2, 2 * D)
    silent = Two(bare, Bert(**SIZES, head=None))
    with pytest.raises(UserError, match=r"config.model: expected .*of its own.*got 'Two with those of left, right'"):
        features_of(silent, variables(silent, TOKENS), inputs)
