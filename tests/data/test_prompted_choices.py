"""Prompts with demonstrations: their texts, whose tokens the answers are, what is drawn, what doesn't fit, errors."""

import functools
import logging

import numpy as np
import pytest

from txjax.data import BPE, Bytes, PromptedChoices, PromptedPairs, Trained, Unigram, WordPiece, eval_batches
from txjax.types import UserError

from helpers import sentence_set

pytestmark = pytest.mark.claim(
    "Evaluation",
    "prompts: their texts, tokens of the answers, draws, what doesn't fit; likelihoods row by row, rules by their "
    "formulas",
)

RECORDS = {"train": sentence_set.records(60), "test": sentence_set.records(10)}
TEMPLATE = "Say {first} ({score:.2f}).\nKind: {label}!"
NAMES = ("bad", "good", "fine")


@pytest.fixture(scope="module")
def data_dir(tmp_path_factory):
    return sentence_set.prepare(tmp_path_factory.mktemp("tfds"))


@pytest.fixture
def prompted(data_dir):
    return functools.partial(
        PromptedChoices,
        name="made_sentences",
        split="test",
        data_dir=data_dir,
        template=TEMPLATE,
        classes=3,
        answers=NAMES,
        length=400,
    )


def prompt_of(record):
    return f"Say {record['first']} ({record['score']:.2f}).\nKind:"


def texts(data, source, index):
    """An example's prompt, and its answers."""
    rows = [source.row(index, choice) for choice in range(3)]
    (prompt,) = {data.tokenizer.decode(row.ids[: row.answer]) for row in rows}
    return prompt, [data.tokenizer.decode(row.ids[row.answer :]) for row in rows]


def drawn(data, source, index):
    """The numbers of the demonstrations in an example's prompt, by their exact texts."""
    known = {f"{prompt_of(r)} {NAMES[r['label']]}!": i for i, r in enumerate(RECORDS["train"]) if r["label"] >= 0}
    prompt, answers = texts(data, source, index)
    *shown, query = prompt.split("\n\n")
    assert query == prompt_of(RECORDS["test"][index]) and answers == [f" {name}" for name in NAMES]
    return [known[each] for each in shown]


def test_texts_of_prompts_and_answers(prompted):
    data = prompted(separator="\n\n")
    source = data.open()
    assert len(source) == 10
    assert texts(data, source, 1) == (
        "Say cat über over house the over under (0.25).\nKind:",
        [" bad", " good", " fine"],
    )
    assert texts(data, source, 3)[0] == "Say  (0.75).\nKind:"  # an empty text
    names = prompted(answers=(), template="{first};\n{second} {label}", split="train")
    assert names.class_names() == ("0", "1", "2")
    empty = ";\n" + RECORDS["train"][3]["second"]
    assert texts(names, names.open(), 3) == (empty, [" 0", " 1", " 2"])
    example = source.example(1, 0, np.random.default_rng(0))
    assert {key: (x.shape, x.dtype) for key, x in example.items()} == {
        key: (s.shape, s.dtype) for key, s in data.spec().items() if key != "id"
    }
    for choice, name in enumerate(NAMES):
        size, answer = len(prompt_of(RECORDS["test"][1]).encode()), len(name) + 1
        types = np.arange(400) >= size
        inside = np.arange(400) < size + answer
        np.testing.assert_array_equal(example["choice_segments"][choice], inside)
        np.testing.assert_array_equal(example["choice_types"][choice], types & inside)
        assert not example["choice_tokens"][choice][~inside].any()
    labels = [source.example(i, 0, None) for i in range(10)]
    assert [int(each["label"]) for each in labels] == [r["label"] for r in RECORDS["test"]]
    assert [float(each["weights"]) for each in labels] == [float(r["label"] >= 0) for r in RECORDS["test"]]


def test_demonstrations(prompted):
    data = prompted(length=6000)

    def draws(shots, seed):
        source = data.prompts(shots, seed)
        return [drawn(data, source, i) for i in range(10)]

    found = draws(4, seed=1)
    for one, four in zip(draws(1, seed=1), found, strict=True):
        assert four[-1:] == one and len(set(four)) == 4
    assert found == draws(4, seed=1) and found != draws(4, seed=2)
    assert len({tuple(each) for each in found}) == 10  # each record has its own
    every = [sorted(each) for each in draws(52, seed=1)[::9]]
    assert every == [[i for i, r in enumerate(RECORDS["train"]) if r["label"] >= 0]] * 2


def test_a_record_is_never_its_own_demonstration(prompted):
    data = prompted(split="train[:20]", demonstrations="train[10:16]", template="{score:.2f}:{label}", separator=" ")
    source = data.prompts(4)
    for i in range(20):
        *shown, query = texts(data, source, i)[0].rstrip(":").split(" ")
        numbers = {int(4 * float(each.split(":")[0])) for each in shown}
        assert len(numbers) == 4 and numbers <= set(range(10, 16)) - {i, 13} and (query == f"{i / 4:.2f}" or i % 7 == 6)
    with pytest.raises(UserError, match="data.demonstrations: expected a split with 5 labelled records, for 5 shots"):
        data.prompts(5)


@pytest.mark.parametrize("kind", [BPE, WordPiece, Unigram])
def test_an_answer_is_what_the_whole_text_has_after_the_prompts_tokens(prompted, data_dir, kind):
    fields = {"data_dir": data_dir, "features": ("first",), "specials": ("[UNK]", "<s>")}
    tokenizer = Trained(kind(), 280, "made_sentences", **fields)
    data, plain = prompted(tokenizer=tokenizer, start="<s>"), prompted(length=800)
    source, written = data.prompts(2), plain.prompts(2)
    for index in range(10):
        prompt, _ = texts(plain, written, index)
        for choice, name in enumerate(NAMES):
            ids, answer = source.row(index, choice)
            assert ids[0] == tokenizer.special("<s>") and answer == 1 + len(tokenizer.encode(prompt))
            np.testing.assert_array_equal(ids[1:], tokenizer.encode(f"{prompt} {name}"))
            np.testing.assert_array_equal(ids[answer:], tokenizer.encode(f" {name}"))


def drawn_text(record):
    return f"{prompt_of(record)} {NAMES[record['label']]}!" if record["label"] >= 0 else ""


def test_long_prompts_lose_demonstrations_and_then_tokens(prompted, caplog):
    whole, data = prompted(length=800), prompted(length=200)
    with caplog.at_level(logging.WARNING, "txjax"):
        source, every = data.prompts(4), whole.prompts(4)
    fewer = 0
    for i in range(10):
        kept, all_four = drawn(data, source, i), drawn(whole, every, i)
        sizes = [len(drawn_text(RECORDS["train"][n]).encode()) + 2 for n in all_four]
        own = len(prompt_of(RECORDS["test"][i]).encode()) + len(" good")
        fitting = max(n for n in range(5) if own + sum(sizes[4 - n :]) <= 200)
        assert kept == all_four[4 - fitting :]
        fewer += fitting < 4
    assert (
        fewer > 0
        and f"made_sentences test: {fewer} of 10 prompts lose demonstrations, data.length = 200" in caplog.text
    )
    with pytest.raises(UserError, match='data.length: expected at least 100, .*too_long = "cut"'):
        prompted(length=50).open()
    caplog.clear()
    cut = prompted(length=50, too_long="cut", tokenizer=Bytes(("<s>",)), start="<s>")
    source = cut.open()
    assert "6 of 10 prompts lose their first tokens" in caplog.text
    for i in range(10):
        for row in (source.row(i, choice) for choice in range(3)):
            assert (
                len(row.ids) <= 50
                and row.ids[0] == 256
                and cut.tokenizer.decode(row.ids[: row.answer]).endswith("Kind:")
            )
    with pytest.raises(UserError, match="data.length: expected at least 6, an answer and a token before it, got 5"):
        prompted(length=5, too_long="cut").open()


def test_prompts_of_an_encoder_decoder_are_sources(prompted, data_dir):
    fields = {"template": TEMPLATE, "classes": 3, "answers": NAMES, "length": 8}
    data = PromptedPairs("made_sentences", "test", data_dir, source_length=150, buckets=(64,), **fields)
    source, plain = data.prompts(2), prompted(length=800)
    every, kept = plain.prompts(2), []
    for index in range(10):
        example = source.example(index, 0, np.random.default_rng(0))
        assert {key: (x.shape, x.dtype) for key, x in example.items()} == {
            key: (s.shape, s.dtype) for key, s in data.spec().items() if key != "id"
        }
        read = example["source_tokens"][example["source_segments"] > 0]
        *shown, query = texts(plain, every, index)[0].split("\n\n")
        blocks = Bytes().decode(read[:-1]).split("\n\n")
        assert blocks == [*shown, query][-len(blocks) :] and read[-1] == 257
        kept.append(len(blocks))
        for choice, name in enumerate(NAMES):
            row = [256, *name.encode(), 257]
            filled = np.arange(8) < len(row)
            np.testing.assert_array_equal(example["choice_tokens"][choice], np.pad(row, (0, 8 - len(row))))
            np.testing.assert_array_equal(example["choice_segments"][choice], filled)
            np.testing.assert_array_equal(example["choice_types"][choice], filled & (np.arange(8) > 0))
    assert set(kept) == {1, 2, 3}
    (shape,) = {batch["source_tokens"].shape for batch in eval_batches(data.premise("Kind:"), batch_size=2)}
    assert shape == (2, 64)
    cut = PromptedPairs("made_sentences", "test", data_dir, source_length=20, too_long="cut", **fields)
    tokens = cut.open().example(1, 0, np.random.default_rng(0))["source_tokens"]
    assert tokens.tolist() == [*prompt_of(RECORDS["test"][1])[-19:].encode(), 257]
    for said, changed in (
        ("data.length: expected at least 6, the longest answer with the start and the end token, got 5", {"length": 5}),
        ("data.source_length: expected at least 96, the longest prompt", {"source_length": 50}),
        ("data.start: expected the name of the token", {"start": None}),
        ("data.buckets: .*150", {"buckets": (151,)}),
    ):
        with pytest.raises(UserError, match=said):
            PromptedPairs("made_sentences", "test", data_dir, **fields | {"source_length": 150} | changed).open()


def test_a_batch_has_the_shortest_bucket_that_fits(prompted):
    data = prompted(buckets=(64, 128))
    source = data.open()
    sizes = [max(len(source.row(i, c).ids) for c in range(3)) for i in range(10)]
    lengths = [batch["choice_tokens"].shape[-1] for batch in eval_batches(source, batch_size=2)]
    assert lengths == [min(n for n in (64, 128, 400) if n >= max(sizes[i : i + 2])) for i in range(0, 10, 2)]
    assert len(set(lengths)) > 1


def test_other_texts_in_place_of_the_prompt(prompted):
    data = prompted()
    assert texts(data, data.premise(data.cue()), 0) == (
        "Kind:",
        [" bad", " good", " fine"],
    )  # with the template's space
    assert texts(data, data.premise("A kind is "), 0)[0] == "A kind is" and len(data.premise("Kind")) == 1
    blank, own = data.prompts(2, seed=3, blank="N/A"), data.prompts(2, seed=3)
    for i in range(10):
        before, record = texts(data, own, i)[0], RECORDS["test"][i]
        query = prompt_of(record)
        expected = before.removesuffix(query) + query.replace(f"Say {record['first']}", "Say N/A")
        assert texts(data, blank, i)[0] == expected


def test_user_errors(prompted):
    def refuse(said, **settings):
        with pytest.raises(UserError, match=said):
            prompted(**settings).open()

    refuse("data.template: expected a feature of kind .*, got 'frist'; did you mean first", template="{frist} {label}")
    ends = r"data.template: expected other features, then \{label\}, which is the answer"
    for template in ("{label}", "{first}", "{label}: {first}", "{label} {first} {label}"):
        refuse(ends, template=template)
    refuse("data.label: expected a feature of kind ClassLabel", label="score")
    refuse("data.classes: expected the 3 classes of made_sentences, got 2", classes=2)
    refuse("data.answers: expected one for each of the 3 classes", answers=("a", "b"))
    refuse(
        "data.answers: expected at least one token in each answer, got ''",
        answers=("a", "b", ""),
        template="Say {first}{label}",
    )
    refuse("data: expected at least one token before an answer, got ''; .*data.start", template="{first} {label}")
    refuse("data.buckets", buckets=(500,))
    refuse("specials: expected the token <s>", start="<s>")
    refuse(r"data.split: expected a split with labelled records, got 'test\[6:7\]'", split="test[6:7]")
    with pytest.raises(UserError, match="data.demonstrations: expected splits of made_sentences"):
        prompted(demonstrations="trian").check_demonstrations()
