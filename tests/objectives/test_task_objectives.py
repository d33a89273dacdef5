"""Multiple choice, and the next token with a task: by hand."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from txjax.data import Bytes, Choices
from txjax.models.text.decoder import Decoder
from txjax.nn import Classes, Heads, LastToken, Tied
from txjax.objectives import Classification, MultipleChoice, NextToken, WithNextToken
from txjax.types import UserError

from helpers import word_set
from helpers.arrays import Echo, filled, numbers, shapes

pytestmark = pytest.mark.claim(
    "Data",
    "choices as rows, their loss by hand; the next token and a task together are the sum of both alone",
)

KEY = jax.random.key(0, impl="rbg")
SPECIALS = ("[CLS]", "[SEP]")


@pytest.fixture(scope="module")
def data_dir(tmp_path_factory):
    return word_set.prepare(tmp_path_factory.mktemp("tfds"))


def choices(data_dir, **settings):
    own = {"context": "{question}", "choices": ("{context}", "x{context}", "{question}"), "label": "right"}
    return Choices("made_words", "train", data_dir, **own | {"length": 30, "tokenizer": Bytes(SPECIALS)} | settings)


def test_each_choice_is_a_row_with_its_context(data_dir):
    data = choices(data_dir)
    source = data.open()
    for index, record in enumerate(word_set.records(12)):
        example = source.example(index, 0, np.random.default_rng(0))
        assert example["label"] == index % 3 and example["weights"] == 1
        context = record["context"].encode()
        for row, text in enumerate((context, b"x" + context, b"Who?")):
            whole = [256, *b"Who?", 257, *text[:23], 257]
            assert example["choice_tokens"][row].tolist() == whole + [0] * (30 - len(whole))
            assert example["choice_segments"][row].sum() == len(whole)
            assert example["choice_types"][row].tolist() == [0] * 6 + [1] * (len(whole) - 6) + [0] * (30 - len(whole))


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"choices": ("{context}",)}, "data.choices: expected at least two format strings"),
        ({"choices": ("{context}", "{question}")}, "data.choices: expected one for each of the 3 labels, got 2"),
        ({"choices": ("{context}", "{contxt}", "a")}, r"data.choices\[1\]: .*did you mean context"),
        ({"label": "question"}, "data.label: expected a feature of kind ClassLabel"),
    ],
)
def test_choices_that_do_not_fit(data_dir, settings, said):
    with pytest.raises(UserError, match=said):
        choices(data_dir, **settings).check()


def test_multiple_choice():
    scores, label = numbers(5, 3), np.asarray([0, 1, 2, 0, 1], np.int32)
    weights = np.asarray([1, 1, 0, 1, 1], np.float32)
    batch = {"id": np.arange(5, dtype=np.int32), "choice_tokens": np.zeros((5, 3, 4), np.int32), "label": label}
    model = Echo(scores.reshape(15, 1))
    found = MultipleChoice()(
        model, {}, {k: jnp.asarray(v) for k, v in (batch | {"weights": weights}).items()}, KEY, False
    )
    assert model.inputs["tokens"].shape == (15, 4)
    each = np.log(np.exp(scores).sum(1)) - scores[np.arange(5), label]
    np.testing.assert_allclose(found.losses["multiple_choice"].value, np.average(each, weights=weights), rtol=1e-5)
    np.testing.assert_allclose(found.metrics["accuracy"].value, np.average(scores.argmax(1) == label, weights=weights))
    with pytest.raises(UserError, match=r"an array \[B 1\], for MultipleChoice, got 'Echo'; its head must be Classes"):
        MultipleChoice()(
            Echo(scores), {}, {k: jnp.asarray(v) for k, v in (batch | {"weights": weights}).items()}, KEY, False
        )


@pytest.mark.slow
def test_the_next_token_with_a_task_is_the_sum_of_both_alone():
    heads = {"task": Classes(3, LastToken()), "text": Tied()}
    model = Decoder(vocab=11, width=8, depth=1, heads=2, head=Heads(heads))
    rng = np.random.default_rng(1)
    tokens = jnp.asarray(rng.integers(0, 11, (4, 6)), jnp.int32)
    segments = jnp.asarray(np.arange(6)[None] < np.asarray([6, 4, 5, 6])[:, None], jnp.int32)
    weights = jnp.asarray([1, 1, 1, 0], jnp.float32)
    batch = {
        "id": jnp.arange(4),
        "tokens": tokens,
        "segments": segments,
        "label": jnp.asarray([0, 2, 1, 0]),
        "weights": weights,
    }
    params = filled(shapes(model, tokens))
    assert set(params["params"]) == {"embed", "layers", "norm_final", "head"}
    found = WithNextToken(weight=0.25)(model, params, batch, KEY, False)
    task = Classification()(model.for_task("task"), params, batch, KEY, False)
    real = np.asarray(segments[:, 1:]) * np.asarray(weights)[:, None]
    shifted = {
        "targets": jnp.pad(tokens[:, 1:], ((0, 0), (0, 1))),
        "weights": jnp.asarray(np.pad(real, ((0, 0), (0, 1)))),
    }
    text = NextToken()(model.for_task("text"), params, batch | shifted, KEY, False)
    assert set(found.losses) == {"classification", "next_token"}
    assert set(found.metrics) == {"accuracy", "text_accuracy"}
    np.testing.assert_allclose(found.losses["classification"].value, task.losses["classification"].value, rtol=1e-5)
    np.testing.assert_allclose(found.losses["next_token"].value, 0.25 * text.losses["next_token"].value, rtol=1e-5)
    assert found.losses["next_token"].count == text.losses["next_token"].count == real.sum()
    with pytest.raises(
        UserError, match=r"config.model.head.heads: expected a head for the task tex, .*did you mean text"
    ):
        model.for_task("tex")
    with pytest.raises(UserError, match=r"config.model.head.heads: expected heads whose .* got 'task, other'"):
        shapes(model.clone(head=Heads({"task": Classes(3, LastToken()), "other": Classes(2, LastToken())})), tokens)
    with pytest.raises(UserError, match=r"a model with heads for task and text, .*got 'Echo'; its head must be Heads"):
        WithNextToken()(Echo(numbers(4, 3)), {}, batch, KEY, False)
