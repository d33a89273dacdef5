"""Distillation: its terms against their formulas, its two models, and teachers that don't suit."""

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax.core import meta

from txjax.data import Characters, Images, TextWindows
from txjax.models.text.bert import Bert
from txjax.models.text.decoder import gpt
from txjax.models.vision.conv_net import ConvNet
from txjax.nn import BatchNorm, Classes, Learned, MaskedTokens, MeanTokens, NextSentence
from txjax.objectives import Classification, Distillation, MaskedToken, MultiTask, NextToken
from txjax.optim import AdamW, default_groups, train_all_but
from txjax.types import UserError

from helpers.arrays import filled, numbers, on_jax

pytestmark = pytest.mark.claim(
    "Models and objectives",
    "distillation: its terms by their formulas, no gradient of the teacher; models that do not suit",
)

V, B, L = 11, 3, 5
MASKED = MaskedToken(mask_id=V - 1, vocab=V - 1, rate=0.4)
KEY = jax.random.key(3)


def bert(**fields: Any) -> Any:
    sizes = {"vocab": V, "width": 8, "depth": 2, "heads": 2, "positions": Learned(max_length=L), "dropout": 0.5}
    return Bert(**sizes | fields)


TEACHER = bert(depth=1, heads=4, types=None, head=MaskedTokens(next_sentence=NextSentence()))


def batch() -> dict[str, jax.Array]:
    rng = np.random.default_rng(0)
    real = (np.arange(L)[None] < np.array([[5], [3], [0]])).astype(np.float32)
    tokens = rng.integers(0, V - 1, (B, L)).astype(np.int32)
    given = {"id": np.array([4, 7, -1], np.int32), "tokens": tokens, "weights": real}
    return on_jax(given | {"segments": (real > 0).astype(np.int32)})


def made(objective: Distillation, student: Any) -> Any:
    rngs = {name: jax.random.key(0, impl="rbg") for name in ("params", "dropout")}
    return filled(meta.unbox(jax.eval_shape(lambda: objective.init(student, rngs, batch()))))


def total(terms: dict[str, Any]) -> Any:
    return sum(term.value for term in terms.values())


@pytest.mark.slow
def test_terms_are_those_of_the_formulas() -> None:
    student, given = bert(dropout=0.0), batch()
    goal = Distillation(teacher=TEACHER, objective=MASKED, temperature=3.0, soft_targets=5, hidden_states=7, labels=2)
    variables = made(goal, student)

    @jax.jit
    def run(variables: Any) -> Any:
        seen = goal(student, variables, given, KEY, True)
        alone = MASKED(student, variables, given, KEY, True)
        keys = jax.vmap(jax.random.fold_in, (None, 0))(KEY, given["id"])
        tokens = jax.vmap(MASKED.corrupt)(keys, given["tokens"], given["weights"])[0]
        outputs = []
        for model, params in ((student, variables["params"]), (TEACHER, variables["params"]["teacher"])):
            call = {"params": params}, tokens, given["segments"]
            outputs.append((model.apply(*call)[0].dense(), model.clone(head=None).apply(*call).features))
        gradient = jax.grad(lambda v: total(goal(student, v, given, KEY, True).losses))(variables)["params"]
        evaluated = goal(student, variables, given, KEY, False), MASKED(student, variables, given, KEY, False)
        return seen, alone, outputs, gradient, evaluated

    seen, alone, outputs, gradient, evaluated = run(variables)
    (ours, our_features), (theirs, their_features) = jax.tree.map(np.float64, outputs)
    real = np.asarray(given["weights"]) > 0
    p, q = (np.exp(x / 3) / np.exp(x / 3).sum(-1, keepdims=True) for x in (theirs, ours))
    divergence = 9 * (p * np.log(p / q)).sum(-1)[real].mean()
    np.testing.assert_allclose(seen.losses["soft_targets"].value, 5 * divergence, rtol=1e-4)
    lengths = np.linalg.norm(our_features, axis=-1) * np.linalg.norm(their_features, axis=-1)
    angles = ((our_features * their_features).sum(-1) / lengths)[real].mean()
    np.testing.assert_allclose(seen.losses["hidden_states"].value, 7 * (1 - angles), rtol=1e-4)
    np.testing.assert_allclose(seen.losses["masked_token"].value, 2 * alone.losses["masked_token"].value, rtol=1e-5)
    assert seen.losses["soft_targets"].count == seen.losses["hidden_states"].count == real.sum()
    # The teacher has no gradient, and an evaluation has no teacher.
    assert not any(np.any(leaf) for leaf in jax.tree.leaves(gradient.pop("teacher")))
    assert all(np.any(leaf) for path, leaf in jax.tree.flatten_with_path(gradient)[0] if "key" not in str(path))
    jax.tree.map(np.testing.assert_array_equal, evaluated[0].losses, evaluated[1].losses)


def test_terms_that_are_off_and_logits_in_chunks() -> None:
    """Decoders of unlike widths; a teacher that equals the student leaves nothing to learn, whatever its dropout."""
    student = gpt(vocab=V, width=8, depth=1, heads=2, max_length=L)
    given = batch() | {"targets": batch()["tokens"]}
    wide = Distillation(teacher=gpt(vocab=V, width=12, depth=1, heads=3, max_length=L), objective=NextToken())
    wide = dataclasses.replace(wide, hidden_states=0.0)
    chunked = dataclasses.replace(wide, chunk=2)
    same = Distillation(teacher=student.clone(dropout=0.5), objective=NextToken())
    variables = made(wide, student)
    alone = {k: v for k, v in variables["params"].items() if k != "teacher"}

    @jax.jit
    def run(variables: Any, equal: Any) -> Any:
        return [
            goal(student, v, given, KEY, True).losses
            for goal, v in ((wide, variables), (chunked, variables), (same, equal))
        ]

    whole, parts, equal = run(variables, {"params": alone | {"teacher": alone}})
    assert set(whole) == {"next_token", "soft_targets"} and whole["soft_targets"].value > 0
    np.testing.assert_allclose(parts["soft_targets"].value, whole["soft_targets"].value, rtol=1e-5)
    np.testing.assert_allclose([equal[name].value for name in ("soft_targets", "hidden_states")], 0, atol=1e-5)


def test_classes_have_one_weight_an_example() -> None:
    head = Classes(3, MeanTokens())
    goal = Distillation(teacher=bert(head=head, depth=1), objective=Classification())
    student, given = bert(head=head, dropout=0.0), batch()
    given = given | {"label": jnp.zeros(B, jnp.int32), "weights": given["weights"].max(1)}
    losses = jax.jit(lambda v: goal(student, v, given, KEY, True).losses)(made(goal, student))
    assert losses["soft_targets"].count == 2 and losses["hidden_states"].count == 8
    assert losses["soft_targets"].value > 0


def test_a_teacher_that_sees_another_image() -> None:
    """The divergence of one network's outputs of the clean image from those of the image."""
    model = ConvNet(width=4, depth=1, stages=1, head=Classes(3, MeanTokens()), norm=BatchNorm(group=2))
    goal = Distillation(
        teacher=model,
        objective=Classification(),
        temperature=1.0,
        soft_targets=1.0,
        hidden_states=0.0,
        labels=0.0,
        teacher_image="clean_image",
    )
    rngs = {name: jax.random.key(0, impl="rbg") for name in ("params", "dropout")}
    images = {name: jnp.asarray(numbers(2, 4, 4, 1, seed=i)) for i, name in enumerate(("image", "clean_image"))}
    given = images | {"label": jnp.zeros(2, jnp.int32), "weights": jnp.ones(2), "id": jnp.arange(2)}
    variables = filled(meta.unbox(jax.eval_shape(lambda: goal.init(model, rngs, given))))
    alone = {name: {k: v for k, v in tree.items() if k != "teacher"} for name, tree in variables.items()}
    teacher = {name: tree["teacher"] for name, tree in variables.items()}

    @jax.jit
    def run(variables: Any) -> Any:
        logits = model.apply(alone, given["image"], train=True, mutable=["batch_stats"])[0]
        return goal(model, variables, given, KEY, True).losses, logits, model.apply(teacher, given["clean_image"])

    losses, *logits = run(variables)
    q, p = (np.exp(x) / np.exp(x).sum(-1, keepdims=True) for x in map(np.float64, logits))
    np.testing.assert_allclose(losses["soft_targets"].value, (p * np.log(p / q)).sum(-1).mean(), rtol=1e-4)
    assert losses["classification"].value == 0
    with pytest.raises(UserError, match=r"^objective.teacher_image: expected a key of the examples, got 'clean_image'"):
        goal.check(model, Images(name="txjax_digits", classes=3))
    goal.check(model, Images(name="txjax_digits", classes=3, clean=()))


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"teacher": bert(vocab=V + 1)}, r"^objective.teacher.vocab: expected 11, as config.model.vocab, got 12; "),
        ({"teacher": bert(width=16)}, r"^objective.teacher.width: expected 8, .*got 16; objective.hidden_states=0"),
        ({"teacher": bert(head=None)}, r"^objective.teacher.head: expected a head"),
        ({"teacher": "runs/teacher"}, r"^objective.teacher: expected a model, got 'str'"),
        ({"objective": MultiTask(tasks={"a": MASKED})}, r"^objective.objective: expected .* once, .*got 'MultiTask'"),
        ({"objective": MaskedToken(mask_id=V, vocab=V)}, r"^objective.objective.mask_id: expected ids below .* got 11"),
    ],
)
def test_what_doesnt_suit_is_one_line(fields: dict[str, Any], message: str) -> None:
    goal = Distillation(**{"teacher": TEACHER, "objective": MASKED} | fields)
    with pytest.raises(UserError, match=message):
        goal.check(bert(), TextWindows(name="txjax_python_text", tokenizer=Characters(alphabet="abc")))


def test_all_but_some_are_trained_as_by_default() -> None:
    paths = ["embed/embedding", "norm/scale", "teacher/embed/embedding", "teacher/norm/bias"]
    found = AdamW(groups=train_all_but("teacher/.*")).assign(paths)
    assert [found[path].trainable for path in paths] == [True, True, False, False]
    usual = AdamW(groups=default_groups()).assign(paths)
    assert all(found[path].weight_decay == usual[path].weight_decay for path in paths[:2])
