"""A folder of WAV and FLAC files with JSON Lines is a data set, whose name and path are all that a run needs."""

import json

import numpy as np
import pytest

from txjax.data import ByText, Characters, LabelledAudio, Trained, Utterances
from txjax.data.audio.audio_folders import list_audio
from txjax.types import UserError

from helpers.audio_set import WORDS, file, noise, write_folder, write_levels

KINDS = {
    "u8.wav": ("WAV", "PCM_U8"),
    "i16.wav": ("WAV", "PCM_16"),
    "i24.wav": ("WAV", "PCM_24"),
    "i32.wav": ("WAV", "PCM_32"),
    "f32.WAV": ("WAV", "FLOAT"),
    "f64.wav": ("WAV", "DOUBLE"),
    "i8.flac": ("FLAC", "PCM_S8"),
    "i16.flac": ("FLAC", "PCM_16"),
    "deep/i24.flac": ("FLAC", "PCM_24"),
}


def test_wav_of_8_to_32_bits_and_floats_and_flac(tmp_path):
    files = {name: file(noise(900 + n, n), 8000, *kind) for n, (name, kind) in enumerate(KINDS.items())}
    rows = [{"audio": name, "text": "one"} for name in files]
    data_dir = write_folder(tmp_path, files, {"train": rows, "test": rows[:1]})
    source = Utterances("txjax_audio", data_dir=data_dir, rate=8000, samples=1000).open()
    assert source.lengths[0].of.tolist() == [900 + n for n in range(len(files))]
    for n in range(len(files)):
        example = source.example(n, 0, np.random.default_rng(0))
        np.testing.assert_array_equal(example["audio"][: 900 + n], noise(900 + n, n))


def test_fields_are_named_by_settings_and_labels_are_texts_or_numbers(tmp_path):
    files = {f"{n}.wav": file(noise(900, n)) for n in range(3)}
    names = ("yes", "no", "yes")
    rows = [{"audio_filepath": f"{n}.wav", "said": names[n], "label": 10 - n, "duration": n} for n in range(3)]
    rows[1]["duration"] = 0.5
    data_dir = write_folder(tmp_path, files, {"train": rows, "test": rows})
    where = dict(name="txjax_audio", data_dir=data_dir, rate=8000, samples=900, audio_feature="audio_filepath")
    numbered = LabelledAudio(**where)
    assert numbered.class_names() == ("8", "9", "10")
    source = numbered.open()
    assert [int(source.example(n, 0, np.random.default_rng(0))["label"]) for n in range(3)] == [2, 1, 0]
    source = LabelledAudio(**where, label=ByText("said", ("no", "yes"))).open()
    assert [int(source.example(n, 0, np.random.default_rng(0))["label"]) for n in range(3)] == [1, 0, 1]
    with pytest.raises(UserError, match=r"names: expected a class for each said, got 'no'; in txjax_audio.*\(1.wav\)"):
        LabelledAudio(**where, label=ByText("said", ("yes",))).open()
    text = Utterances(
        **where, text="{said} {duration:.1f}", tokenizer=Characters("abcdefghijklmnopqrstuvwxyz .0123456789")
    )
    assert text.open().text(text.open().plan(1, np.random.default_rng(0))) == "no 0.5"


def test_one_jsonl_file_has_its_rows_held_out_by_their_paths(tmp_path):
    files = {f"{n}.wav": file(noise(900)) for n in range(20)}
    rows = [{"audio": name, "text": "one"} for name in files]
    write_folder(tmp_path, files, {"metadata": rows})
    splits = list_audio(tmp_path).splits
    assert {name: len(part) for name, part in splits.items()} == {"train": 16, "test": 2, "validation": 2}
    assert sorted(row["audio"] for part in splits.values() for row in part) == sorted(files)


def test_a_folder_that_changes_is_prepared_again(tmp_path):
    data_dir = write_levels(tmp_path, [900, 900])
    data = Utterances("txjax_audio", data_dir=data_dir, rate=8000, samples=1000)
    before = data.open()
    (tmp_path / "1.wav").write_bytes(file(noise(950)))
    list_audio.cache_clear()  # another process starts
    after = data.open()
    assert after.lengths[0].of.tolist() == [900, 950] and after.fingerprint != before.fingerprint


def test_a_tokenizer_is_trained_on_the_transcripts(tmp_path):
    data_dir = write_levels(tmp_path, [900] * 6)
    tokenizer = Trained(size=270, name="txjax_audio", data_dir=data_dir, specials=("[PAD]", "[END]"))
    data = Utterances("txjax_audio", data_dir=data_dir, rate=8000, samples=1000, length=8, tokenizer=tokenizer)
    example = data.open().example(2, 0, np.random.default_rng(0))
    size = int(example["transcript_length"])
    assert tokenizer.decode(example["transcript"][:size]) == WORDS[2]
    assert example["targets"][: size + 1].tolist() == [*example["transcript"][:size], tokenizer.special("[END]")]
    assert example["tokens"][: size + 1].tolist() == [tokenizer.special("[END]"), *example["transcript"][:size]]
    assert example["weights"].tolist() == [1] * (size + 1) + [0] * (7 - size)


GOOD = {"audio": "a.wav", "text": "one"}


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        ([], r"train.jsonl: expected a line such as .*, got 'an empty file'"),
        (["{"], r"train.jsonl line 1: expected a line such as \{\"audio\": \"a.wav\", .*, got '\{'; "),
        (["[1]"], r"train.jsonl line 1: expected a line such as .*, got '\[1\]'"),
        ([{"text": "one"}], r"train.jsonl: expected a field with a file of .wav or .flac, got 'none in line 1'"),
        (
            [GOOD, {**GOOD, "audio": "b.wav"}],
            r"train.jsonl line 2: expected as audio a file that is in .*, got 'b.wav'",
        ),
        ([GOOD, {**GOOD, "audio": "../a.wav"}], r"line 2: expected as audio a path inside the folder, got '../a.wav'"),
        ([GOOD, {**GOOD, "audio": "/a.wav"}], r"line 2: expected as audio a path inside the folder, got '/a.wav'"),
        ([GOOD, {**GOOD, "audio": "a.mp3"}], r"line 2: expected as audio a file of .wav or .flac, got 'a.mp3'"),
        (
            [GOOD, {"audio": "a.wav"}],
            r"line 2: expected the fields of the first line, audio \(str\), text \(str\), got 'audio \(str\)'",
        ),
        ([GOOD, {**GOOD, "text": 1}], r"line 2: expected the fields .*text \(str\), got 'audio \(str\), text \(int\)'"),
    ],
)
def test_jsonl_that_is_no_list_of_the_files(tmp_path, lines, message):
    (tmp_path / "a.wav").write_bytes(file(noise(900)))
    texts = [line if isinstance(line, str) else json.dumps(line) for line in lines]
    (tmp_path / "train.jsonl").write_text("\n".join(texts))
    with pytest.raises(UserError, match=message) as error:
        Utterances("txjax_audio", data_dir=str(tmp_path)).check()
    assert "\n" not in str(error.value)


def test_folders_that_are_no_data_set(tmp_path):
    for data_dir, message in (
        (None, "the folder of audio files, with a JSONL file"),
        (tmp_path / "gone", "a folder with audio files and a JSONL file"),
        (tmp_path, "a folder with a JSONL file for each split"),
    ):
        with pytest.raises(UserError, match=f"data.data_dir: expected {message}"):
            Utterances("txjax_audio", data_dir=data_dir and str(data_dir)).check()
