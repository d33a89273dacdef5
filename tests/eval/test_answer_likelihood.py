"""One forward pass finds the answers that greedy decoding gives, and their likelihood."""

import dataclasses

import jax
import numpy as np
import pytest

from txjax.data import Dataset, Pairs
from txjax.decoding import Cached, Sampling
from txjax.eval import AnswerLikelihood
from txjax.eval.results import means, real_rows
from txjax.eval.text.answer_likelihood import by_answer
from txjax.experiment import Experiment
from txjax.models.text.decoder.decoder import Decoder
from txjax.objectives import NextToken, TokenClassification
from txjax.train.check import check
from txjax.types import UserError, spec

from helpers.arrays import call, forward, numbers, variables
from helpers.evaluations import Copier, Tagged, Tagger, measure

COUNT, PROMPT, ANSWER = 21, 4, 3
LENGTH = PROMPT + ANSWER - 1
PROMPTS = np.random.default_rng(0).integers(0, 11, (COUNT, PROMPT)).astype(np.int32)


@dataclasses.dataclass
class Questions(Dataset):
    """The prompts with these answers."""

    answers: tuple[tuple[int, ...], ...]

    fingerprint = "questions"

    def spec(self):
        found = {key: spec((LENGTH,), "int32") for key in ("tokens", "targets")}
        return {"id": spec((), "int32"), "weights": spec((LENGTH,), "float32")} | found

    def check(self):
        pass

    def open(self):
        return self

    def __len__(self):
        return COUNT

    def example(self, index, epoch, rng):
        text = np.array([*PROMPTS[index], *self.answers[index]], np.int32)
        weights = (np.arange(LENGTH) >= PROMPT - 1).astype(np.float32)
        return {"tokens": text[:-1], "targets": text[1:], "weights": weights}


def test_exact_match_is_that_of_greedy_decoding():
    model = Decoder(vocab=11, width=8, depth=1, heads=2)
    params = variables(model, PROMPTS)
    decode = jax.jit(lambda v, p: Sampling(temperature=0)(Cached(model), v, {"tokens": p}, ANSWER, jax.random.key(0)))
    greedy = np.array(call(decode, params, PROMPTS))
    answers = greedy.copy()
    wrong = np.arange(COUNT) % 3 == 0
    answers[wrong, np.arange(wrong.sum()) % ANSWER] += 1  # one token, at any position
    answers %= 11
    data = Questions(tuple(map(tuple, answers.tolist())))
    found = measure(model, NextToken(), AnswerLikelihood(data=data, batch_size=8), call(dict, params))

    assert found["exact_match"] == (answers == greedy).all(1).mean() == 14 / 21
    logits = np.asarray(call(forward(model), params, np.concatenate([PROMPTS, answers], 1)[:, :-1]), np.float64)
    chances = np.exp(logits) / np.exp(logits).sum(-1, keepdims=True)
    of_answers = np.take_along_axis(chances[:, PROMPT - 1 :], answers[..., None], -1)[..., 0]
    right = (chances[:, PROMPT - 1 :].argmax(-1) == answers).mean()
    likely = np.log(of_answers.prod(1)).mean()
    expected = {"token_accuracy": right, "loss": -likely / ANSWER, "answer_log_likelihood": likely}
    assert found == pytest.approx(expected | {"exact_match": 14 / 21}, rel=1e-5)


def test_scores_count_answers_of_any_length():
    nats, weights = np.abs(numbers(4, 5)), np.float32([[0, 1, 1, 1, 0], [0, 0, 1, 0, 0], [0] * 5, [1, 1, 0, 0, 0]])
    right = np.float32([[0, 1, 1, 1, 0], [1, 1, 0, 1, 1], [1] * 5, [1, 1, 0, 0, 0]])
    columns = jax.device_get(call(by_answer, nats, right, weights))
    found = means(real_rows([columns | {"weights": weights.any(1)}]))
    sums = (nats * weights).sum()
    expected = {"exact_match": 2 / 3, "token_accuracy": 5 / 6, "loss": sums / 6, "answer_log_likelihood": -sums / 3}
    assert found == pytest.approx(expected)


def test_targets_of_an_encoder_decoder_are_answers():
    pairs = Pairs("txjax_python_text", "validation", None, "{path}", "{path}", source_length=30, length=30)
    cut = dataclasses.replace(pairs, length=8)  # ends where the source continues, so the end token is not predicted
    whole, short = (measure(Copier(), NextToken(), AnswerLikelihood(data=data)) for data in (pairs, cut))
    assert whole["exact_match"] == whole["token_accuracy"] == 1
    assert short["exact_match"] < 0.1 and short["token_accuracy"] == pytest.approx(7 / 8, abs=0.02)


def test_a_model_without_next_tokens_is_a_user_error():
    run = Experiment(model=Tagger(), objective=TokenClassification(), data=Tagged(), batch_size=16)
    evaluation = AnswerLikelihood(data=Tagged())
    with pytest.raises(UserError, match="config.model: expected a model with logits of the next token, got 'Tagger'"):
        check(dataclasses.replace(run, evals={"x": evaluation}))
