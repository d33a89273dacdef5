"""A folder of WAV and FLAC files is a source, whose path is all that a run needs; what its lists may say."""

import json

import numpy as np
import pytest

from txjax.data import AudioFolder, ByText, Characters, LabelledAudio, Trained, Utterances
from txjax.data.tfds.records import CorruptData
from txjax.types import UserError

from helpers import runs
from helpers.audio_set import WORDS, file, noise, write_folder, write_levels

SPLITS = ("train", "validation", "test")
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
    source = Utterances(source=data_dir, rate=8000, samples=1000).open()
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
    where = dict(source=data_dir, rate=8000, samples=900, audio_feature="audio_filepath")
    numbered = LabelledAudio(**where)
    assert numbered.class_names() == ("8", "9", "10")
    source = numbered.open()
    assert [int(source.example(n, 0, np.random.default_rng(0))["label"]) for n in range(3)] == [2, 1, 0]
    source = LabelledAudio(**where, label=ByText("said", ("no", "yes"))).open()
    assert [int(source.example(n, 0, np.random.default_rng(0))["label"]) for n in range(3)] == [1, 0, 1]
    with pytest.raises(UserError, match=r"names: expected a class for each said, got 'no'; in .*1.wav"):
        LabelledAudio(**where, label=ByText("said", ("yes",))).open()
    text = Utterances(
        **where, text="{said} {duration:.1f}", tokenizer=Characters("abcdefghijklmnopqrstuvwxyz .0123456789")
    )
    assert text.open().text(text.open().plan(1, np.random.default_rng(0))) == "no 0.5"


def test_one_list_has_its_rows_held_out_by_their_content(tmp_path):
    files = {f"{n}.wav": file(noise(900, n)) for n in range(20)}
    rows = [{"audio": name, "text": "one"} for name in files]
    write_folder(tmp_path, files, {"metadata": rows})
    names = [
        [record["audio/filename"].decode() for record in records.read(0, len(records))]
        for records in (AudioFolder(str(tmp_path)).open(split, ["audio/filename"]) for split in SPLITS)
    ]
    assert all(names) and sorted(sum(names, [])) == sorted(files)


def test_a_folder_that_changes_is_read_again(tmp_path):
    data_dir = write_levels(tmp_path, [900, 900])
    data = Utterances(source=data_dir, rate=8000, samples=1000)
    before = data.open()
    (tmp_path / "1.wav").write_bytes(file(noise(950)))
    after = data.open()
    assert after.lengths[0].of.tolist() == [900, 950] and after.fingerprint != before.fingerprint


def test_a_tokenizer_is_trained_on_the_transcripts(tmp_path):
    data_dir = write_levels(tmp_path, [900] * 6)
    tokenizer = Trained(size=270, source=data_dir, specials=("[PAD]", "[END]"))
    data = Utterances(source=data_dir, rate=8000, samples=1000, length=8, tokenizer=tokenizer)
    example = data.open().example(2, 0, np.random.default_rng(0))
    size = int(example["transcript_length"])
    assert tokenizer.decode(example["transcript"][:size]) == WORDS[2]
    assert example["targets"][: size + 1].tolist() == [*example["transcript"][:size], tokenizer.special("[END]")]
    assert example["tokens"][: size + 1].tolist() == [tokenizer.special("[END]"), *example["transcript"][:size]]
    assert example["weights"].tolist() == [1] * (size + 1) + [0] * (7 - size)


def test_classes_are_folders_and_lists_are_jsonl_csv_or_manifests(tmp_path):
    files = {f"{label}/{n}.wav": file(noise(900, n + len(label))) for label in ("yes", "nothing") for n in range(4)}
    folders = write_folder(tmp_path / "folders", files, {})
    data = LabelledAudio(source=folders, rate=8000, samples=900)
    assert data.class_names() == ("nothing", "yes") and len(data.open()) == 6
    lines = "".join(f'{{"audio_filepath": "{name}", "text": "a", "duration": 0.1}}\n' for name in files)
    for name in ("train_manifest.json", "metadata.csv"):
        table = "file_name,text,number\n" + "".join(f'"{name}",a,{n}\n' for n, name in enumerate(files))
        folder = tmp_path / name
        write_folder(folder, files, {})
        (folder / name).write_text(table if name.endswith("csv") else lines)
        source = AudioFolder(str(folder))
        content, extra = ("audio", "number") if name.endswith("csv") else ("audio_filepath", "duration")
        assert {content, f"{content}/filename", "text", extra} == set(source.features())
        records = source.open("train" if "train" in name else "train+validation+test", [content])
        assert len(records) == 8 and records[3][content] in files.values()


GOOD = {"audio": "a.wav", "text": "one"}


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        ([], r"expected a listing with rows, got '.*train.jsonl without any'"),
        (["{"], r"expected a row with the path of .*train.jsonl: line 1: Expecting property"),
        (["[1]"], r"expected a row with the path of .*train.jsonl: line 1: expected a JSON object, got '\[1\]'"),
        ([{"text": "one"}], r"expected a file of .wav, .flac as file_name, got '.*train.jsonl: line 1: None'"),
        ([GOOD, {**GOOD, "audio": "b.wav"}], r"expected a file that is in .*train.jsonl: line 2: b.wav'"),
        ([GOOD, {**GOOD, "audio": "../a.wav"}], r"expected a file inside of .*train.jsonl: line 2: ../a.wav'"),
        ([GOOD, {**GOOD, "audio": "/a.wav"}], r"expected a file inside of .*train.jsonl: line 2: /a.wav'"),
        ([GOOD, {**GOOD, "audio": "a.mp3"}], r"expected a file of .wav, .flac as audio, got .*line 2: .*a.mp3"),
    ],
)
def test_lists_that_do_not_name_the_files(tmp_path, lines, message):
    (tmp_path / "a.wav").write_bytes(file(noise(900)))
    texts = [line if isinstance(line, str) else json.dumps(line) for line in lines]
    (tmp_path / "train.jsonl").write_text("\n".join(texts))
    with pytest.raises(UserError, match=f"data.source: {message}") as error:
        Utterances(source=str(tmp_path)).check()
    assert "\n" not in str(error.value)


def test_a_row_without_a_column_of_the_others(tmp_path):
    rows = [GOOD, {"audio": "b.wav"}]
    folder = write_folder(tmp_path, {"a.wav": file(noise(900)), "b.wav": file(noise(900, 1))}, {"train": rows})
    with pytest.raises(CorruptData, match=r"b.wav: no 'text'; it has audio, audio/filename"):
        Utterances(source=folder, rate=8000, samples=900).open()


def test_the_path_of_a_folder_is_all_that_the_config_for_recordings_needs(tmp_path):
    folder = tmp_path / "speech"
    for number in range(40):
        path = folder / "ab"[number % 2] / f"{number}.wav"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(file(noise(16_000, number), 16_000))
    flags = (f"--config.data.source={folder}", "--config.model.width=8", "--config.model.depth=1", "--dry_run")
    code, out, err = runs.train_here("txjax:audio/audio_folder", tmp_path / "run", *flags)
    assert code == 0 and "examples: train " in out, err


def test_folders_that_are_no_source(tmp_path):
    for folder, message in (
        ("", "a folder of audio files, got None; --config.data.source=FOLDER"),
        (tmp_path / "gone", "a folder of audio files"),
        (tmp_path, "a folder with files of .wav, .flac"),
    ):
        with pytest.raises(UserError, match=f"data.source: expected {message}"):
            Utterances(source=AudioFolder(str(folder))).check()
