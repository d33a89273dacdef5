"""Pairs of texts: both sides whole, shifted by one, and each cut to its own length; arrays cut along any axis."""

import contextlib
import dataclasses
import itertools
import logging

import numpy as np
import pytest

from txjax.__main__ import main
from txjax.data import Bytes, Characters, Mixture, Pairs, eval_batches, train_batches
from txjax.data.keys import check_spec
from txjax.data.loading.buckets import Bucketed, Lengths
from txjax.experiment import Experiment
from txjax.models.text.encoder_decoder import EncoderDecoder
from txjax.nn import Learned
from txjax.objectives import NextToken
from txjax.train.check import check
from txjax.types import UserError

from helpers import sentence_set

pytestmark = [
    pytest.mark.claim(
        "Data",
        "rows of several tasks, pairs cut along each axis: the same batches from any step and on any number of hosts",
    ),
    pytest.mark.claim("Data", "texts by format strings over features, and bad ones; long and empty pairs are counted"),
]

START, END = 256, 257
KEPT = [record for record in sentence_set.records(60) if record["first"] and record["second"]]
BUCKETS = ((60, 60), (60, 130))


@pytest.fixture(scope="module")
def pairs(tmp_path_factory):
    data_dir = sentence_set.prepare(tmp_path_factory.mktemp("tfds"))
    return Pairs("made_sentences", "train", data_dir, "{first}", "{second}", source_length=120, length=140)


def take(data, count, **settings):
    batches = train_batches(data.open(), batch_size=4, seed=3, **settings)
    found = list(itertools.islice(batches, count))
    batches.close()
    return found


def test_both_sides_are_the_sets_texts(pairs):
    assert len(pairs.open()) == len(KEPT) < 60
    check_spec("Pairs", pairs.spec(), {})
    short = dataclasses.replace(pairs, source_length=9, length=12)
    sources = [(pairs.open(), 120, 140), (short.open(), 9, 12)]
    for number, record in enumerate(KEPT):
        first, second = (list(record[feature].encode()) for feature in ("first", "second"))
        for opened, source, target in sources:
            example = opened.example(number, 0, np.random.default_rng(0))
            given, wanted = [*first[: source - 1], END], second[: target - 1]
            assert example["source_tokens"].tolist() == given + [0] * (source - len(given))
            assert example["source_segments"].sum() == len(given)
            rest = [0] * (target - len(wanted) - 1)
            assert example["tokens"].tolist() == [START, *wanted, *rest]
            assert example["targets"].tolist() == [*wanted, END, *rest]
            assert example["segments"].sum() == example["weights"].sum() == len(wanted) + 1


def test_each_side_is_cut_to_the_smallest_pair_that_fits_both(pairs):
    whole, cut = take(pairs, 40), take(dataclasses.replace(pairs, buckets=BUCKETS), 40)
    for a, b in zip(whole, cut, strict=True):
        sides = int(a["source_segments"].sum(1).max()), int(a["segments"].sum(1).max())
        fitting = [sizes for sizes in (*BUCKETS, (120, 140)) if all(np.less_equal(sides, sizes))]
        source, target = min(fitting, key=np.prod)
        for key, value in a.items():
            kept = value if key == "id" else value[:, : source if key.startswith("source") else target]
            np.testing.assert_array_equal(kept, b[key])
    assert len({b["source_tokens"].shape + b["tokens"].shape for b in cut}) == 3


def test_sorted_pairs_resume_at_any_step_and_show_every_example_once(pairs):
    data = dataclasses.replace(pairs, buckets=BUCKETS, sort_batches=5)
    straight, later = take(data, 12), take(data, 5, start_step=7)
    for a, b in zip(straight[7:], later, strict=True):
        assert a.keys() == b.keys() and all(np.array_equal(a[key], b[key]) for key in a)
    ids = [i for batch in eval_batches(data.open(), batch_size=8) for i in batch["id"][batch["weights"].max(1) > 0]]
    assert ids == list(range(len(KEPT)))


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"buckets": ((60, 150),)}, r"data.buckets: expected pairs of lengths, at most .* = \(120, 140\)"),
        ({"sort_batches": 2}, "data.buckets: expected lengths, if sort_batches is above 1"),
        ({"target_text": "{secnd}"}, "data.target_text: .*did you mean second"),
        ({"end": "[EOS]"}, r"the token \[EOS\] among them"),
        ({"source_tokenizer": Bytes()}, r"data.source_tokenizer.specials: .*the token \[END\] among them"),
        ({"source_tokenizer": Characters("aa")}, r"data.source_tokenizer.alphabet: expected distinct characters"),
    ],
)
def test_wrong_settings(pairs, fields, message):
    with pytest.raises(UserError, match=message):
        dataclasses.replace(pairs, **fields).check()


LETTERS = Characters("".join(sorted(set("".join(sentence_set.WORDS)) | {" "})), specials=("[END]",))


def test_both_sides_have_their_own_tokenizer(pairs):
    data = dataclasses.replace(pairs, source_tokenizer=LETTERS)
    assert (data.vocab(), data.source_vocab()) == (258, LETTERS.vocab()) and pairs.source_vocab() is None
    example, record = data.open().example(4, 0, np.random.default_rng(0)), KEPT[4]
    source = example["source_tokens"][: example["source_segments"].sum()]
    assert LETTERS.decode(source) == record["first"] + "[END]"
    assert data.tokenizer.decode(example["targets"][: example["segments"].sum()]) == record["second"] + "[END]"
    poor = dataclasses.replace(data, source_tokenizer=dataclasses.replace(LETTERS, alphabet="abc"))
    with pytest.raises(UserError, match=r"^data\.source_tokenizer\.alphabet: expected all characters of the text"):
        poor.open()


def test_long_pairs_are_cut_or_left_out_and_counted(pairs, caplog):
    caplog.set_level(logging.WARNING)
    short = dataclasses.replace(pairs, source_length=60, length=50)
    fit = [r for r in KEPT if len(r["first"].encode()) < 60 and len(r["second"].encode()) < 50]
    cut, dropped = (dataclasses.replace(short, too_long=way).open() for way in ("cut", "drop"))
    assert len(cut) == len(KEPT) > len(dropped) == len(fit) > 10
    sizes = "are longer than source_length, length = (60, 50) and"
    empty = f"made_sentences train: {60 - len(KEPT)} of 60 pairs have an empty text and are left out"
    long = f"made_sentences train: {len(KEPT) - len(fit)} of 60 pairs {sizes}"
    assert caplog.messages == [empty, f"{long} lose their last tokens", empty, f"{long} are left out"]
    assert dropped.texts(np.arange(len(fit))) == [(r["first"], r["second"]) for r in fit]
    longest = max(range(len(KEPT)), key=lambda i: len(KEPT[i]["first"]))
    assert cut.texts(np.array([longest])) == [(KEPT[longest]["first"], KEPT[longest]["second"])]
    assert cut.fingerprint != dropped.fingerprint
    whole = [dataclasses.replace(pairs, too_long=way).open() for way in ("cut", "drop", "refuse")]
    assert {source.fingerprint for source in whole} == {cut.fingerprint}  # the same examples: nothing is long


def test_tasks_as_text_share_a_batch(pairs):
    scores = dataclasses.replace(pairs, source_text="score: {first} {second}", target_text="{score:.1f}")
    seventh = [r for r in sentence_set.records(60) if r["first"] or r["second"]][7]
    expected = f"score: {seventh['first']} {seventh['second']}", f"{seventh['score']:.1f}"
    assert scores.open().texts(np.array([7])) == [expected]
    mixture = Mixture({"pairs": pairs, "scores": scores})
    mixture.check()
    assert len(mixture.open()) == len(pairs.open()) + len(scores.open())
    other = dataclasses.replace(pairs, source_tokenizer=LETTERS)
    assert Mixture({"a": other, "b": other}).source_vocab() == LETTERS.vocab()
    with pytest.raises(UserError, match=r"^data\.parts\.b\.source_tokenizer: expected the first part's"):
        Mixture({"a": pairs, "b": other}).check()


@pytest.mark.parametrize(
    ("model", "source_tokenizer", "message"),
    [
        ({}, None, None),
        ({"source_vocab": 300}, None, None),
        ({"source_vocab": LETTERS.vocab()}, LETTERS, None),
        ({"vocab": 257}, None, r"vocab: expected at least 258, the tokens of config\.data, got 257"),
        ({"vocab": 257, "source_vocab": 90}, LETTERS, r"vocab: expected at least 258, the target tokens of"),
        ({"source_vocab": 257}, None, r"source_vocab: expected at least 258, the source tokens of config\.data"),
        ({"source_vocab": 9}, LETTERS, rf"source_vocab: expected at least {LETTERS.vocab()}, the source tokens of"),
        ({}, LETTERS, rf"source_vocab: expected {LETTERS.vocab()}, .*whose source_tokenizer is another one, got None"),
    ],
)
def test_vocabularies_of_both_sides(pairs, model, source_tokenizer, message):
    data = dataclasses.replace(pairs, source_tokenizer=source_tokenizer)
    model = EncoderDecoder(**dict(vocab=258, width=8, depth=1, heads=1) | model)
    experiment = Experiment(model=model, objective=NextToken(), data=data, batch_size=4)
    with pytest.raises(UserError, match=rf"^config\.model\.{message}") if message else contextlib.nullcontext():
        check(experiment)


def test_a_source_that_is_longer_than_the_models_positions(pairs):
    for longest, (source_length, length) in ((120, (120, 60)), (140, (60, 140))):
        data = dataclasses.replace(pairs, source_length=source_length, length=length)
        model = EncoderDecoder(vocab=258, width=8, depth=1, heads=1, positions=Learned(max_length=100))
        experiment = Experiment(model=model, objective=NextToken(), data=data, batch_size=4)
        message = rf"^config\.model\.positions\.max_length: expected at least the input's length of {longest}, got 100"
        with pytest.raises(UserError, match=message):
            check(experiment)


CONFIG = """
from txjax.data import Pairs
from txjax.experiment import Experiment
from txjax.models.text.encoder_decoder import EncoderDecoder
from txjax.objectives import NextToken

def get_config():
    data = Pairs("made_sentences", "train", {data_dir!r}, "{{first}}", "{{second}}", too_long="refuse")
    model = EncoderDecoder(vocab=258, width=8, depth=1, heads=1)
    return Experiment(model=model, objective=NextToken(), data=data, batch_size=4)
"""


@pytest.mark.parametrize(
    ("flag", "line"),
    [
        (
            "--config.data.length=20",
            "config.data.too_long: expected pairs of at most source_length, length = (128, 20) tokens, got '",
        ),
        ("--config.data.source_text={frist}", "config.data.source_text: expected a feature of kind Text"),
        ("--config.data.split=empty", "config.data.split: expected splits of made_sentences"),
        ("--config.data.start=[STRAT]", "config.data.tokenizer.specials: expected the token [STRAT] among them"),
    ],
)
def test_train_ends_with_one_line_before_it_compiles(pairs, tmp_path, capsys, flag, line):
    path = tmp_path / "made.py"
    path.write_text(CONFIG.format(data_dir=pairs.data_dir))
    assert main(["train", f"--config={path}", f"--workdir={tmp_path / 'run'}", flag]) == 2
    errors = [found for found in capsys.readouterr().err.splitlines() if found.startswith("txjax: ")]
    assert len(errors) == 1 and errors[0].startswith(f"txjax: {line}")
    assert not (tmp_path / "run").exists()


class Frames(Bucketed):
    """Features [T C] and masks [N T C], cut along the frames; audio is never cut."""

    fingerprint = "frames"

    def __init__(self):
        sizes = np.arange(1, 9, dtype=np.int32)
        self.lengths = (Lengths(sizes, {"features": 0, "masks": 1}),)
        self.buckets, self.sort_batches = ((4,), (8,)), 1

    def __len__(self):
        return 8

    def example(self, index, epoch, rng):
        shapes = {"features": (8, 3), "masks": (2, 8, 3), "audio": (16,)}
        return {key: np.ones(shape, np.float32) for key, shape in shapes.items()} | {"weights": np.ones((), np.float32)}


def test_a_source_states_the_axis_that_is_cut():
    first, second = eval_batches(Frames(), batch_size=4)
    for batch, frames in ((first, 4), (second, 8)):
        assert batch["features"].shape == (4, frames, 3) and batch["masks"].shape == (4, 2, frames, 3)
        assert batch["audio"].shape == (4, 16)
