"""Prompts with their answers: one text, of which only the answer and its end are learned."""

import dataclasses

import numpy as np
import pytest

from txjax.data import Bytes, Completions, Mixture, eval_batches
from txjax.data.keys import check_spec
from txjax.types import UserError

from helpers import sentence_set

END = 256
KEPT = [record for record in sentence_set.records(60) if record["first"] and record["second"]]


@pytest.fixture(scope="module")
def completions(tmp_path_factory):
    data_dir = sentence_set.prepare(tmp_path_factory.mktemp("tfds"))
    return Completions("made_sentences", "train", data_dir, "{first}?", "{second}", length=260)


def texts(record):
    return [*record["first"].encode(), ord("?")], [*record["second"].encode()]


def test_an_example_is_the_prompt_the_answer_and_its_end(completions):
    check_spec("Completions", completions.spec(), {})
    source = completions.open()
    assert len(source) == len(KEPT) < 60
    for number, record in enumerate(KEPT):
        prompt, answer = texts(record)
        example = source.example(number, 0, np.random.default_rng(0))
        size = len(prompt) + len(answer)
        assert example["tokens"].tolist() == [*prompt, *answer] + [0] * (260 - size)
        assert example["targets"].tolist() == [*prompt, *answer, END][1:] + [0] * (260 - size)
        assert example["segments"].tolist() == [1] * size + [0] * (260 - size)
        assert example["targets"][example["weights"] > 0].tolist() == [*answer, END]
        assert set(example["weights"].tolist()) == {0.0, 1.0}


def test_longer_ones_are_refused_or_left_out(completions, caplog):
    sizes = [sum(map(len, texts(record))) for record in KEPT]
    short = dataclasses.replace(completions, length=sorted(sizes)[20])
    with pytest.raises(UserError, match=f"data.length: expected at least {max(sizes)}, the longest .* too_long"):
        short.open()
    few = dataclasses.replace(short, too_long="drop").open()
    kept = [texts(record) for record, size in zip(KEPT, sizes, strict=True) if size <= short.length]
    assert len(few) == len(kept) >= 21 and f"{len(KEPT) - len(kept)} longer than {short.length}" in caplog.text
    assert few.example(3, 0, np.random.default_rng(0))["tokens"][: len(kept[3][0])].tolist() == kept[3][0]
    assert few.fingerprint != completions.open().fingerprint
    with pytest.raises(UserError, match="a prompt with an answer that fit 2 tokens, got 'none in made_sentences"):
        dataclasses.replace(short, length=2, too_long="drop").open()


def test_parts_of_a_mixture(completions):
    other = dataclasses.replace(completions, prompt="{second}", answer="{first}")
    source = Mixture(parts={"a": completions, "b": other}).open()
    assert len(source) == 2 * len(KEPT)
    ids = [i for batch in eval_batches(source, batch_size=8) for i in batch["id"][batch["weights"].max(1) > 0]]
    assert ids == list(range(2 * len(KEPT)))


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"tokenizer": Bytes()}, "data.end: expected the name of a special token, since the tokenizer names none"),
        ({"end": "[STOP]"}, r"the token \[STOP\] among them"),
        ({"prompt": "{frist}"}, "data.prompt: .* did you mean first"),
        ({"answer": "yes"}, "data.answer: expected a format string with a feature"),
    ],
)
def test_user_errors(completions, fields, said):
    with pytest.raises(UserError, match=said):
        dataclasses.replace(completions, **fields).check()
