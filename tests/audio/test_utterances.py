"""Utterances: lengths before reading, resampling, speed, chains, selections, keys."""

import itertools
import logging

import numpy as np
import pytest

from txjax.data import (
    AllBut,
    Chained,
    Characters,
    Only,
    Speed,
    Tasks,
    TextNormalization,
    Utterances,
    eval_batches,
    train_batches,
)
from txjax.data.loading.default_eval_data import follow_training_data
from txjax.data.loading.rng import example_rng
from txjax.types import UserError

from helpers.audio_set import WORDS, file, level, noise, write_folder, write_levels

SIZES = (900, 500, 700, 400, 800, 600)
FIELDS = dict(rate=8000, length=32)
SPEED = Speed((0.8, 1.0, 1.25))


@pytest.fixture(scope="module")
def levels(tmp_path_factory):
    return write_levels(tmp_path_factory.mktemp("levels"), SIZES)


def heard(example) -> tuple[list[int], list[int]]:
    """The numbers of the levels of an example, and the samples of each and of the gaps."""
    audio = np.rint(example["audio"][: example["audio_length"]] * 16).astype(int)
    runs = [(value, len(list(run))) for value, run in itertools.groupby(audio.tolist())]
    return [value - 1 for value, _ in runs if value], [size for _, size in runs]


def test_keys_shapes_and_values(levels):
    data = Utterances(**FIELDS, source=levels, samples=900)
    example = data.open().example(2, 0, np.random.default_rng(0))
    assert {key: (value.shape, value.dtype) for key, value in example.items()} == {
        key: (x.shape, x.dtype) for key, x in data.spec().items() if key != "id"
    }
    np.testing.assert_array_equal(example["audio"][:700], level(2, 700))
    assert not example["audio"][700:].any() and example["audio_length"] == 700
    assert example["transcript"].tolist() == [21, 9, 19, 6, 6] + [0] * 27  # t h r e e of " 'a-z"
    assert example["transcript_length"] == 5 and example["weights"] == 1


def test_the_transcripts_of_an_epoch_are_read_without_recordings(levels, monkeypatch):
    data = Utterances(**FIELDS, source=levels, samples=900)
    monkeypatch.setattr("txjax.data.audio.recordings.Recordings.read", None)
    assert list(data.open().transcripts()) == list(WORDS[: len(SIZES)])
    chained = Utterances(**FIELDS, source=levels, samples=4000, chained=Chained(least=2, most=3, gap=0.01))
    assert all(1 <= text.count(" ") <= 2 for text in chained.open().transcripts())


def test_a_tokenizer_with_an_end_gives_the_rows_of_a_decoder(levels):
    tokenizer = Characters("efhinorstuvwx", specials=("[START]", "[END]"))
    data = Utterances(**FIELDS | {"length": 6}, source=levels, samples=900, tokenizer=tokenizer)
    example = data.open().example(1, 0, np.random.default_rng(0))
    two = [8, 11, 5]
    assert example["tokens"].tolist() == [13, *two, 0, 0] and example["targets"].tolist() == [*two, 14, 0, 0]
    assert example["weights"].tolist() == [1, 1, 1, 1, 0, 0] and example["transcript"].tolist() == [*two, 0, 0, 0]
    batch = next(eval_batches(data.open(), batch_size=8))
    assert batch["weights"][6:].sum() == 0 and batch["audio_length"][6:].tolist() == [0, 0]


def test_a_prompt_begins_the_rows_of_a_decoder(levels):
    tokenizer = Characters("efhinorstuvwx", specials=("[EN]", "[END]", "[SOT]"))
    fields = FIELDS | {"length": 7, "source": levels, "samples": 900, "prompt": ("[SOT]", "[EN]")}
    data = Utterances(**fields, tokenizer=tokenizer)
    example = data.open().example(1, 0, np.random.default_rng(0))
    two = [8, 11, 5]
    assert data.opening() == (15, 13) and data.most_symbols() == 5
    assert example["tokens"].tolist() == [15, 13, *two, 0, 0] and example["targets"].tolist() == [13, *two, 14, 0, 0]
    assert example["weights"].tolist() == [0, 1, 1, 1, 1, 0, 0]
    with pytest.raises(UserError, match=r"data.prompt: expected \(\), since the tokenizer has no token that ends"):
        Utterances(**fields, tokenizer=Characters("efhinorstuvwx", specials=("[SOT]", "[EN]"))).check()
    with pytest.raises(UserError, match=r"data.length: expected more than 2, the tokens of data.prompt, got 2"):
        Utterances(**fields | {"length": 2}, tokenizer=tokenizer).check()


def test_an_evaluation_has_what_describes_the_training_data(levels):
    normalization = TextNormalization(case="lower")
    train = Utterances(**FIELDS, source=levels, samples=900, stored_rate=8000, normalization=normalization)
    valid = follow_training_data(Utterances(split="test"), train)
    assert (valid.source, valid.rate, valid.stored_rate) == (levels, 8000, 8000)
    assert (valid.samples, valid.length, valid.tokenizer) == (900, 32, train.tokenizer)
    assert valid.normalization == normalization and valid.spec() == train.spec() and len(valid.open()) == 6


def test_lengths_and_buckets_are_known_without_decoding_a_sample(levels, monkeypatch):
    import soundfile

    monkeypatch.setattr(soundfile.SoundFile, "read", lambda *_, **__: pytest.fail("a sample was decoded"))
    source = Utterances(**FIELDS, source=levels, samples=900, buckets=(500, 700)).open()
    assert source.lengths[0].of.tolist() == list(SIZES)
    assert source.cuts([(1, 0), (3, 0)], 0) == {"audio": (slice(500),)}
    assert source.cuts([(1, 0), (5, 0)], 0) == {"audio": (slice(700),)}


def test_other_rates_are_resampled_once_and_channels_mixed_and_both_are_said(tmp_path, monkeypatch, caplog):
    import soxr

    seconds = np.arange(8000) / 16000
    tone = (np.sin(2 * np.pi * 440 * seconds) / 2).astype(np.float32)
    files = {"slow.wav": file(noise(901)), "fast.wav": file(np.stack([tone, tone / 2], 1), 16000, subtype="FLOAT")}
    rows = [{"audio": name, "text": "one"} for name in files]
    data_dir = write_folder(tmp_path, files, {"train": rows, "test": rows})
    data = Utterances(**FIELDS, source=data_dir, samples=4000)
    with caplog.at_level(logging.WARNING, "txjax"):
        first = data.open()
    assert "1 recordings of 16000 Hz are resampled to 8000 Hz" in caplog.text
    assert "the channels of 1 recordings are mixed to one" in caplog.text
    assert first.lengths[0].of.tolist() == [901, 4000]
    example = first.example(1, 0, np.random.default_rng(0))
    np.testing.assert_allclose(example["audio"][100:-100], 0.75 * tone[::2][100:-100], atol=2e-4)
    np.testing.assert_array_equal(first.example(0, 0, np.random.default_rng(0))["audio"][:901], noise(901))
    monkeypatch.setattr(soxr, "resample", lambda *_, **__: pytest.fail("it was resampled again"))
    again = data.open()
    np.testing.assert_array_equal(again.example(1, 0, np.random.default_rng(0))["audio"], example["audio"])


def test_speed_changes_lengths_as_the_cuts_know(levels):
    data = Utterances(**FIELDS, source=levels, samples=1125, speed=SPEED, buckets=(400, 500, 640, 720, 900, 1000))
    source = data.open()
    factors = set()
    for seed, epoch, index in itertools.product((0, 1), range(6), range(6)):
        rng = example_rng(seed, epoch, index)
        factor = source.plan(index, example_rng(seed, epoch, index)).factor
        example = source.example(index, epoch, rng)
        assert example["audio_length"] == round(SIZES[index] / factor) == source.sizes([(index, epoch)], seed)[0][0]
        factors.add(factor)
    assert factors == {0.8, 1.0, 1.25}
    for seed in (0, 1):
        batches = train_batches(source, batch_size=2, seed=seed)
        for batch in itertools.islice(batches, 12):
            fitting = min(size for size in (*data.buckets, 1125) if size >= batch["audio_length"].max())
            assert batch["audio"].shape == (2, fitting)
        batches.close()


def test_a_tone_is_faster_and_higher(tmp_path):
    tone = np.sin(2 * np.pi * 400 * np.arange(4000) / 8000).astype(np.float32) / 2
    row = [{"audio": "a.wav", "text": "one"}]
    data_dir = write_folder(tmp_path, {"a.wav": file(tone, subtype="FLOAT")}, {"train": row, "test": row})
    source = Utterances(**FIELDS, source=data_dir, samples=4000, speed=Speed((1.25,))).open()
    example = source.example(0, 0, np.random.default_rng(0))
    assert example["audio_length"] == 3200
    spectrum = np.abs(np.fft.rfft(example["audio"][:3200]))
    assert spectrum.argmax() * 8000 / 3200 == 500


@pytest.mark.slow
def test_draws_are_the_same_after_a_resume_and_with_any_number_of_workers(levels):
    data = Utterances(
        **FIELDS,
        source=levels,
        samples=4000,
        speed=SPEED,
        chained=Chained(1, 3),
        buckets=(1500, 2500),
        sort_batches=2,
    )
    batches = train_batches(data.open(), batch_size=3, seed=4)
    expected = list(itertools.islice(batches, 8))
    batches.close()
    for settings in (dict(start_step=3), dict(start_step=3, workers=2)):
        batches = train_batches(data.open(), batch_size=3, seed=4, **settings)
        for batch, other in zip(itertools.islice(batches, 5), expected[3:], strict=True):
            assert all(np.array_equal(batch[key], other[key]) for key in other) and batch.keys() == other.keys()
        batches.close()


def test_chains_are_drawn_anew_in_training_and_fixed_in_evaluation(levels):
    data = Utterances(**FIELDS, source=levels, samples=4000, chained=Chained(least=2, most=3, gap=0.01))
    source = data.open()
    assert len(source) == 6
    chains = {}
    for epoch, index in itertools.product(range(4), range(6)):
        example = source.example(index, epoch, example_rng(1, epoch, index))
        numbers, runs = heard(example)
        words = data.tokenizer.decode(example["transcript"][: example["transcript_length"]])
        assert words == " ".join(WORDS[number] for number in numbers) and numbers[0] == index
        expected = [size for number in numbers for size in (80, SIZES[number])][1:]
        assert runs == expected and sum(runs) == source.sizes([(index, epoch)], 1)[0][0]
        chains[epoch, index] = tuple(numbers)
    assert {len(chain) for chain in chains.values()} == {2, 3}
    assert len({tuple(chains[epoch, index] for index in range(6)) for epoch in range(4)}) == 4
    one, other = (list(eval_batches(data.open(), batch_size=6)) for _ in range(2))
    np.testing.assert_array_equal(one[0]["transcript"], other[0]["transcript"])


def test_of_a_chain_as_many_recordings_are_taken_as_fit(levels):
    for limits in (dict(samples=2200), dict(samples=9000, length=13)):
        source = Utterances(**FIELDS | limits, source=levels, chained=Chained(4, 4, 0.0)).open()
        for index in range(6):
            plan = source.plan(index, example_rng(0, 0, index))
            words = " ".join(WORDS[number] for number in plan.numbers)
            size = sum(SIZES[number] for number in plan.numbers)
            assert plan.numbers[0] == index and size <= limits["samples"] and len(words) <= limits.get("length", 32)


def test_records_are_selected_by_a_feature(levels):
    settings = dict(source=levels, samples=900)
    for select, words in (
        (Only("speaker", ("a",)), WORDS[::2]),
        (AllBut("speaker", ("a",)), WORDS[1::2]),
        (Only("text", ("six", "one")), ("one", "six")),
    ):
        source = Utterances(**FIELDS, **settings, select=select).open()
        rng = np.random.default_rng(0)
        assert tuple(source.text(source.plan(index, rng)) for index in range(len(source))) == words
    with pytest.raises(UserError, match=r"data.select.values: expected values of speaker .*\(a, b\), got 'c'"):
        Utterances(**FIELDS, **settings, select=Only("speaker", ("c",))).open()
    with pytest.raises(UserError, match=r"data.select.feature: expected a feature of kind .*, got 'speakre'; did you"):
        Utterances(**FIELDS, **settings, select=Only("speakre", ("a",))).check()
    with pytest.raises(UserError, match=r"data.select.values: expected a choice that leaves records"):
        Utterances(**FIELDS, **settings, select=AllBut("speaker", ("a", "b"))).open()


def test_transcripts_are_normalised_before_they_are_encoded(tmp_path):
    rows = [{"audio": "a.wav", "text": "Dial  2-5, PLEASE & don't!"}]
    data_dir = write_folder(tmp_path, {"a.wav": file(noise(900))}, {"train": rows, "test": rows})
    normalization = TextNormalization(
        replacements={"&": "and"},
        digits=("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine"),
        case="lower",
        punctuation="remove",
    )
    data = Utterances(**FIELDS | {"length": 40}, source=data_dir, samples=900, normalization=normalization)
    example = data.open().example(0, 0, np.random.default_rng(0))
    text = data.tokenizer.decode(example["transcript"][: example["transcript_length"]])
    assert text == normalization(rows[0]["text"]) == "dial two five please and don't"


@pytest.mark.parametrize(
    ("fields", "text", "expected"),
    [
        (dict(), "  As it\tis, 1! ", "As it is, 1!"),
        (dict(case="upper"), "straße", "STRASSE"),
        (dict(unicode="NFKC"), "ﬁne １", "fine 1"),
        (dict(punctuation="remove"), "rock'n'roll (live) $5", "rock'n'roll live 5"),
        (dict(punctuation="remove", kept=""), "rock'n'roll", "rock n roll"),
        (dict(replacements={"%": " percent", "%%": "!"}), "5% %%", "5 percent !"),
    ],
)
def test_normalisation(fields, text, expected):
    normalise = TextNormalization(**fields)
    assert normalise(text) == expected == normalise(expected)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        (dict(buckets=(700, 500)), r"data.buckets: expected ascending lengths, at most data.samples = 900"),
        (dict(sort_batches=2), r"data.buckets: expected lengths, if sort_batches is above 1"),
        (dict(speed=Speed(())), r"data.speed.factors: expected numbers from 0.25 to 4"),
        (dict(chained=Chained(3, 2)), r"data.chained.most: expected at least data.chained.least = 3, got 2"),
        (dict(chained=Chained(), tokenizer=Characters("enotw")), r"data.tokenizer: expected one that has the space"),
        (dict(text="{words}"), r"data.text: expected a feature of kind .*, got 'words'"),
        (
            dict(audio_feature="text"),
            r"data.audio_feature: expected a feature of kind Audio or Tensor \(the set has audio\)",
        ),
        (dict(normalization=TextNormalization(digits=("zero",))), r"data.normalization.digits: expected ten words, or"),
    ],
)
def test_settings_that_do_not_fit(levels, fields, message):
    with pytest.raises(UserError, match=message):
        Utterances(**FIELDS, source=levels, samples=900, **fields).check()


def test_drawn_lengths_have_no_buckets_among_several_tasks(levels):
    words = Utterances(**FIELDS, source=levels, samples=2000, speed=SPEED, buckets=(1000,))
    with pytest.raises(UserError, match=r"data.parts.words.buckets: expected \(\) among several tasks, .* speed draws"):
        Tasks(parts={"words": words}).check()
    words.buckets = ()
    batch = next(train_batches(Tasks(parts={"words": words}).open(), batch_size=2, seed=0))
    assert batch["words/audio"].shape == (2, 1, 2000)
