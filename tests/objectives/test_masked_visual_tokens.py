"""Masked visual tokens: the loss against its formula, the masks, the frozen tokenizer, and models that don't suit."""

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax.core import meta

from txjax.data import Images
from txjax.data.loading.default_eval_data import fill_default_fields
from txjax.models.vision.mask_git import mask_git
from txjax.models.vision.vq_tokenizer import VQTokenizer
from txjax.nn import MASK_SCHEDULES, GroupNorm, Tied
from txjax.objectives import CrossEntropy, MaskedVisualTokens
from txjax.types import UserError

from helpers.arrays import filled, numbers, on_jax

pytestmark = pytest.mark.claim(
    "Models and objectives",
    "masked visual tokens: the loss by its formula, no gradient of the tokenizer; models that do not suit",
)

K, C, N, B = 7, 10, 6, 4
TOKENIZER = VQTokenizer(
    width=4, depth=1, multipliers=(1, 2), codes=K, code_size=3, channels=1, norm=GroupNorm(groups=2, eps=1e-6)
)
MODEL = mask_git(K, C, N, width=8, depth=2, heads=2)
GOAL = MaskedVisualTokens(tokenizer=TOKENIZER, classes=C)
LABELS = np.array([3, 0, C - 1, -1], np.int32)
BATCH = on_jax(
    {
        "id": np.array([4, 9, 2, -1], np.int32),
        "image": numbers(B, 4, 6, 1),
        "label": LABELS,
        "weights": np.array([1, 1, 1, 0], np.float32),
    }
)
KEY = jax.random.key(1)


def drawn(goal: MaskedVisualTokens = GOAL, model: Any = MODEL) -> Any:
    rngs = {"params": jax.random.key(0, impl="rbg")}
    return filled(meta.unbox(jax.eval_shape(lambda: goal.init(model, rngs, BATCH))))


@pytest.mark.slow
def test_the_loss_is_that_of_the_masked_tokens() -> None:
    made = drawn()
    assert set(made["params"]) >= {"embed", "layers", "tokenizer"}
    goal = dataclasses.replace(GOAL, loss=CrossEntropy(label_smoothing=0.2))

    @jax.jit
    def run(made: Any) -> Any:
        tokens = TOKENIZER.apply({"params": made["params"]["tokenizer"]}, BATCH["image"], method="encode")
        tokens = tokens.reshape(B, N)
        keys = jax.vmap(jax.random.fold_in, (None, 0))(KEY, BATCH["id"])
        hidden = jax.vmap(lambda key: goal.hide(key, N))(keys)
        first = K + jnp.maximum(BATCH["label"], 0)
        read = jnp.concatenate([first[:, None], jnp.where(hidden, K + C, tokens)], 1)
        own = {"params": {k: v for k, v in made["params"].items() if k != "tokenizer"}}
        logits = MODEL.apply(own, read)[0].dense()[:, 1:, :K]

        def loss(made: Any) -> tuple[jax.Array, Any]:
            seen = goal(MODEL, made, BATCH, KEY, True)
            return sum(term.value for term in seen.losses.values()), seen

        gradient, seen = jax.grad(loss, has_aux=True)(made)
        return tokens, hidden, logits, gradient["params"], seen

    tokens, hidden, logits, gradient, seen = run(made)
    logits = np.float64(logits)
    logs = logits - np.log(np.exp(logits).sum(-1, keepdims=True))
    chosen = np.take_along_axis(logs, np.asarray(tokens)[..., None], -1)[..., 0]
    masked = np.asarray(hidden)[:3]
    loss = seen.losses["masked_visual_token"]
    np.testing.assert_allclose(loss.value, -chosen[:3][masked].mean(), rtol=1e-4)
    assert loss.count == masked.sum()
    smoothed = (0.8 * chosen + 0.2 * logs.mean(-1))[:3][masked].mean()
    np.testing.assert_allclose(loss.value + seen.losses["label_smoothing"].value, -smoothed, rtol=1e-4)
    right = (logits.argmax(-1) == tokens)[:3][masked].mean()
    np.testing.assert_allclose(seen.metrics["accuracy"].value, right, rtol=1e-5)
    assert not any(np.any(leaf) for leaf in jax.tree.leaves(gradient["tokenizer"]))
    assert np.any(gradient["embed"]["embedding"][K + C]) and np.any(gradient["embed"]["embedding"][K + 3])


@pytest.mark.parametrize("schedule", MASK_SCHEDULES)
def test_masked_tokens_are_as_many_as_the_schedule_says(schedule: str) -> None:
    goal, count, draws = dataclasses.replace(GOAL, schedule=schedule), 49, 400
    keys = jax.vmap(jax.random.key)(jnp.arange(draws))
    hidden = np.asarray(jax.jit(jax.vmap(lambda key: goal.hide(key, count)))(keys))
    numbers = hidden.sum(1)
    assert numbers.min() >= 1 and numbers.max() <= count
    means = {"cosine": 2 / np.pi, "linear": 1 / 2, "square": 2 / 3, "cubic": 3 / 4}
    assert abs(numbers.mean() / count - means[schedule] - 0.5 / count) < 0.05
    assert hidden.mean(0).std() < 0.05  # every place is as likely


def test_inputs_are_a_class_and_masks() -> None:
    (tokens,) = GOAL.inputs(None, BATCH).values()
    np.testing.assert_array_equal(tokens[:, 0], K + np.maximum(LABELS, 0))
    np.testing.assert_array_equal(tokens[:, 1:], np.full((B, N), GOAL.mask_id))
    assert int(tokens.max()) == MODEL.vocab - 1


def test_tokens_are_decoded_as_the_tokenizer_does() -> None:
    made = on_jax(drawn())
    tokens = jnp.asarray(np.random.default_rng(0).integers(0, K, (2, N)).astype(np.int32))
    painted = jax.jit(lambda made: GOAL.decode(made, tokens, 4, 6))(made)
    own = {"params": made["params"]["tokenizer"]}
    wanted = jax.jit(lambda own: TOKENIZER.apply(own, tokens.reshape(2, 2, 3), method="decode"))(own)
    np.testing.assert_allclose(painted, wanted, atol=1e-5)


@pytest.mark.parametrize(
    ("model", "goal", "message"),
    [
        (
            MODEL.clone(vocab=K + C),
            GOAL,
            r"^config.model.vocab: expected at least 18: 7 codes, 10 classes and the mask",
        ),
        (MODEL, dataclasses.replace(GOAL, classes=9), r"^objective.classes: expected at least 10, the classes of"),
        (
            MODEL,
            dataclasses.replace(GOAL, tokenizer=MODEL),
            r"^objective.tokenizer: expected a VQTokenizer, got 'Bert'",
        ),
    ],
)
def test_what_doesnt_suit_is_one_line(model: Any, goal: MaskedVisualTokens, message: str) -> None:
    with pytest.raises(UserError, match=message):
        goal.check(model, fill_default_fields(Images(name="txjax_digits", shape=(8, 8, 1))))


def test_errors_of_the_tokenizer_and_of_the_head() -> None:
    odd = dataclasses.replace(GOAL, tokenizer=TOKENIZER.clone(channels=3))
    with pytest.raises(UserError, match=r"^config.objective.tokenizer.channels: expected 1, as the images have"):
        drawn(odd)
    with pytest.raises(UserError, match="config.model: expected a model that predicts masked tokens.*got 'Bert'"):
        drawn(GOAL, MODEL.clone(head=Tied()))
