"""Replaced-token detection, with stubs of the generator and the discriminator."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from txjax.models.text.bert import Bert
from txjax.models.text.electra.electra import Replaced
from txjax.nn import Logits
from txjax.objectives import MaskedToken, ReplacedToken
from txjax.objectives.replaced_token import pairwise_auc
from txjax.types import UserError

pytestmark = pytest.mark.claim(
    "Models and objectives",
    "replaced tokens: losses and metrics counted by hand, samples keyed by example and step",
)

V = 9
MASK = V
L = 16


class Stub:
    """Its generator predicts `logits` [V] everywhere; its discriminator has the score `scores(tokens)`."""

    vocab = V + 1

    def __init__(self, logits: np.ndarray, scores: Any) -> None:
        self.logits, self.scores = jnp.asarray(logits, jnp.float32), scores

    def apply(self, variables: Any, tokens: jax.Array, replace: Any, train: bool) -> Replaced:
        self.masked = tokens
        predicted = Logits(jnp.broadcast_to(self.logits, (*tokens.shape, V)))
        self.seen = replace(predicted)
        return Replaced(predicted, self.seen, self.scores(self.seen))


def batch(*ids: int) -> dict[str, jax.Array]:
    tokens = np.stack([np.random.default_rng(i).integers(0, V - 1, L) for i in ids]).astype(np.int32)
    weights = np.ones((len(ids), L), np.float32)
    weights[-1, 10:] = 0
    return {"id": jnp.asarray(ids), "tokens": jnp.asarray(tokens), "weights": jnp.asarray(weights)}


def outcome(model: Stub, given: dict[str, jax.Array], seed: int = 3, **fields: Any) -> tuple[Any, Any, Any]:
    """The outcome, the generator's tokens and the discriminator's."""
    objective = ReplacedToken(mask_id=MASK, vocab=V, **{"rate": 0.5, "mask": 1.0, **fields})

    @jax.jit
    def call(given: dict[str, jax.Array], key: jax.Array) -> Any:
        return objective(model, {"params": {}}, given, key, False), model.masked, model.seen

    return call(given, jax.random.key(seed))


def test_masked_tokens_are_replaced_and_the_losses_and_metrics_are_counted_by_hand() -> None:
    """The generator always says 8, which no text has; the discriminator's score depends on the token alone."""
    sure = np.where(np.arange(V) == V - 1, 0.0, -1e9)
    scored = np.linspace(-2, 1, V).astype(np.float32)
    model, given = Stub(sure, lambda tokens: jnp.asarray(scored)[tokens]), batch(4, 5)
    found, masked, seen = outcome(model, given, weight=7.0)
    real, tokens, seen = (np.asarray(x) for x in (given["weights"] > 0, given["tokens"], seen))
    hidden = np.asarray(masked) == MASK
    assert hidden.sum(1).tolist() == [8, 5] and not hidden[~real].any()
    np.testing.assert_array_equal(seen, np.where(hidden, V - 1, tokens))
    replaced, scores = hidden[real], scored[seen]
    nats = np.log1p(np.exp(-np.where(replaced, 1, -1) * scores[real]))
    assert float(found.losses["replaced_token"].value) == pytest.approx(7 * nats.mean(), rel=1e-5)
    values = {name: float(mean.value) for name, mean in found.metrics.items()}
    assert values["replaced"] == pytest.approx(13 / 26)
    assert values["replaced_accuracy"] == pytest.approx(((scores[real] > 0) == replaced).mean())
    assert values["replaced_recall"] == 1.0
    assert values["replaced_precision"] == pytest.approx(13 / (scores[real] > 0).sum())
    assert values["replaced_auc"] == 1.0 and values["accuracy"] == 0.0


def test_equal_scores_have_no_order() -> None:
    positive, real = jnp.asarray([[True, False, False, True]]), jnp.asarray([[True, True, True, False]])
    assert pairwise_auc(jnp.zeros((1, 4)), positive, real).value == 0.5
    assert pairwise_auc(jnp.asarray([[0.0, 1, -1, 9]]), positive, real).value == 0.5
    assert pairwise_auc(jnp.asarray([[0.0, -2, -1, -9]]), positive, real).value == 1.0


def test_a_sample_that_is_the_original_counts_as_original() -> None:
    given = batch(4, 5)
    given["tokens"] = jnp.full_like(given["tokens"], 2)
    model = Stub(np.where(np.arange(V) == 2, 0.0, -1e9), lambda tokens: jnp.full(tokens.shape, -50.0))
    found, masked, _ = outcome(model, given)
    assert (masked == MASK).any()
    assert found.metrics["replaced"].value == 0 and found.losses["replaced_token"].value < 1e-9
    assert found.metrics["replaced_recall"].count == 0 and found.metrics["replaced_auc"].count == 0


def test_samples_depend_on_the_example_and_the_step() -> None:
    model = Stub(np.zeros(V), lambda tokens: jnp.zeros(tokens.shape))
    seen = outcome(model, batch(4, 5, 6))[2]
    np.testing.assert_array_equal(seen[:2], outcome(model, batch(5, 4, 6))[2][1::-1])
    assert (seen != outcome(model, batch(4, 5, 6), seed=4)[2]).any()


def test_one_encoder_is_refused() -> None:
    model = Bert(vocab=257, width=8, depth=1, heads=2)
    with pytest.raises(UserError, match="config.model: expected a model that takes replace, .*got 'Bert, .*as Electra"):
        ReplacedToken(mask_id=256, vocab=256).check_model(model, batch(1))
    electra = Stub(np.zeros(V), lambda tokens: tokens)
    electra.apply = lambda *given, **named: Replaced(None, None, None)
    with pytest.raises(UserError, match=r"predicts masked tokens, .*got 'Stub'; .* ReplacedToken\(\) trains Electra"):
        MaskedToken(mask_id=MASK, vocab=V)(electra, {}, batch(1), jax.random.key(0), False)
