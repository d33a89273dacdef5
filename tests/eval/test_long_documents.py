"""Perplexity in overlapping windows equals that of tokens predicted one by one, each in its own context."""

import dataclasses

import jax.numpy as jnp
import numpy as np
import pytest

from txjax.data import NextTokenPacked, SlidingWindows
from txjax.eval import Perplexity
from txjax.experiment import Experiment
from txjax.models.text.decoder.decoder import Decoder, gpt
from txjax.objectives import NextToken
from txjax.train.check import check
from txjax.types import UserError

from helpers import sentence_set
from helpers.arrays import forward, variables
from helpers.evaluations import measure

pytestmark = pytest.mark.claim(
    "Evaluation",
    "long documents in overlapping windows equal tokens predicted one by one, each in its context",
)

LENGTH = 6
MODEL = Decoder(vocab=256, width=8, depth=1, heads=2)


@pytest.fixture(scope="module")
def text(tmp_path_factory):
    data_dir = sentence_set.prepare(tmp_path_factory.mktemp("tfds"))
    return SlidingWindows("made_sentences", "test[:6]", data_dir, feature="first", length=LENGTH, stride=1)


@pytest.fixture(scope="module")
def params():
    return variables(MODEL, np.zeros((1, 4), np.int32))


def nats(text, params, contexts):
    """-log p of every token of the documents after its context of `contexts(its index)` tokens, and their number."""
    tokens, predict = text.tokens(), forward(MODEL)
    total, count = 0.0, 0
    for number in range(len(tokens.documents) - 1):
        document = tokens.text(number)
        for at in range(1, len(document)):
            context = document[at - contexts(at) : at]
            logits = np.asarray(predict(params, jnp.asarray(context[None])), np.float64)[0, -1]
            total += np.log(np.exp(logits).sum()) - logits[document[at]]
            count += 1
    return total, count


@pytest.mark.slow
@pytest.mark.parametrize(
    ("stride", "contexts"),
    [
        (1, lambda at: min(at, LENGTH)),
        (4, lambda at: at if at <= LENGTH else LENGTH - 3 + (at - LENGTH - 1) % 4),
        (LENGTH, lambda at: 1 + (at - 1) % LENGTH),
    ],
)
def test_perplexity_equals_a_loop_over_tokens(text, params, stride, contexts):
    data = dataclasses.replace(text, stride=stride)
    total, count = nats(text, params, contexts)
    assert count > 150
    loss = total / count
    expected = {"loss": loss, "perplexity": np.exp(loss), "bits_per_byte": loss / np.log(2)}
    for batch_size in (16, 40):
        scores = measure(MODEL, NextToken(), Perplexity(data=data, batch_size=batch_size), params)
        assert scores == {name: pytest.approx(value, rel=1e-5) for name, value in expected.items()}


def test_without_overlap_it_is_that_of_packed_documents(text, params):
    fields = {field.name: getattr(text, field.name) for field in dataclasses.fields(NextTokenPacked)}
    found = [
        measure(MODEL, NextToken(), Perplexity(data=data), params)
        for data in (NextTokenPacked(**fields), dataclasses.replace(text, stride=LENGTH))
    ]
    assert found[0] == pytest.approx(found[1], rel=1e-6)


def test_windows_longer_than_the_model_reads_are_an_error_before_it_compiles(text):
    model = gpt(vocab=256, width=8, depth=1, heads=1, max_length=4)
    train = dataclasses.replace(text, length=4)
    with pytest.raises(
        UserError, match=r"config.model.positions.max_length: expected at least the input.s length of 6"
    ):
        check(Experiment(model=model, objective=NextToken(), data=train, evals={"x": Perplexity(data=text)}))
