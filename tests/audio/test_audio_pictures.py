"""`txjax inspect` of runs on audio: spectrograms with symbols, masks and maps, and their sound."""

import base64
import dataclasses
import io
import json
import shutil
import wave
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from txjax.__main__ import main
from txjax.checkpoint import Checkpoints
from txjax.commands import report
from txjax.data import Characters, LabelledAudio, Utterances
from txjax.experiment import Experiment
from txjax.models.audio.spectrogram_transformer import SpectrogramTransformer
from txjax.models.audio.speech_transformer import speech2text
from txjax.nn import Classes, MeanPrefix, TokenClasses
from txjax.nn.audio.log_mel import LogMel
from txjax.nn.audio.sequence_subsampling import GatedSubsampling
from txjax.nn.audio.spec_augment import AxisMasks, SpecAugment
from txjax.objectives import Classification, JointCTC
from txjax.objectives.base import example_keys
from txjax.optim import AdamW, Constant
from txjax.report import picture
from txjax.report.inspection.audio_figures import spectrogram_picture, spread
from txjax.report.inspection.audio_views import BEST, TRANSCRIPT, AudioView, Span, audio_views, bin_frequencies
from txjax.report.inspection.examples import Example, examples_of
from txjax.train.trainer import train

from helpers import level_texts
from helpers.arrays import variables
from helpers.audio_set import WORDS, file, noise, write_folder

pytestmark = pytest.mark.claim(
    "Evaluation", "pictures of audio: symbols at their frames, masks, attention over time; sound in the page"
)

FRONT_END = LogMel(rate=8000, window=200, hop=80, fft=256, mels=8)


def inspect(capsys: Any, workdir: Path, *words: str) -> dict[str, Any]:
    capsys.readouterr()
    assert main(["inspect", f"--workdir={workdir}", "--trust=helpers.level_texts", "--json", *words]) == 0
    record = json.loads(capsys.readouterr().out)
    return record | {"names": {Path(path).name for path in record["files"]}}


def samples_of(content: bytes) -> tuple[int, np.ndarray]:
    """The rate and the samples of a WAV file of 16 bits and one channel."""
    with wave.open(io.BytesIO(content)) as reader:
        assert (reader.getnchannels(), reader.getsampwidth()) == (1, 2)
        return reader.getframerate(), np.frombuffer(reader.readframes(reader.getnframes()), "<i2")


def views_of(run: Experiment, key: Any) -> tuple[list[Example], list[AudioView], list[str]]:
    """Of all recordings, before the first step."""
    examples = list(examples_of(run.model, run.objective, run.data, "config.data", 3))
    params = variables(run.model, **{name: np.asarray(x) for name, x in examples[0].inputs.items()})
    return examples, *audio_views(run.model, params, run.objective, examples, key)


def test_symbols_are_at_their_frames(tmp_path: Path) -> None:
    """A frame of logits is .02 s. The best path and the alignment of a right transcript are the same."""
    examples, views, notes = views_of(level_texts.experiment(tmp_path), jax.random.key(7))
    sizes = [int(example.batch["transcript_length"][0]) for example in examples]
    by_size = dict(zip(sizes, views, strict=True))
    spans = [("a", 0.04, 0.1), ("b", 0.1, 0.16), ("\u2423", 0.16, 0.2), ("b", 0.2, 0.28)]
    for path in (BEST, TRANSCRIPT):
        texts = [(span.text, round(span.start, 6), round(span.end, 6)) for span in by_size[4].paths[path]]
        assert texts == spans
    assert by_size[4].seconds == 0.3 and by_size[4].tokens == 15
    assert by_size[1].paths == {TRANSCRIPT: [Span("b", 0.02, 0.12)], BEST: [Span("b", 0.02, 0.12)]}
    assert by_size[5].paths[TRANSCRIPT] == []
    assert notes == [f"example {sizes.index(5)}: its transcript doesn't fit its frames"]


def test_masks_are_those_of_training(tmp_path: Path) -> None:
    """The keys are the step's and the example's; the features of training are what the objective's masks give."""
    run = level_texts.experiment(tmp_path)
    key = jax.random.fold_in(jax.random.key(run.seed), 4)
    examples, views, _ = views_of(run, key)
    for number, (example, view) in enumerate(zip(examples, views, strict=True)):
        features, length = (jnp.asarray(example.inputs[name]) for name in ("features", "features_length"))
        keys = example_keys(key, {"id": np.array([number], np.int32)})
        expected = run.objective.augment(features, length, keys)[0, : int(length[0])]  # type: ignore[attr-defined]
        np.testing.assert_array_equal(view.masked, expected)
        np.testing.assert_array_equal(view.features, features[0, : int(length[0])])


def test_a_recording_that_is_left_out_has_a_picture(tmp_path: Path) -> None:
    """It has no samples, no frames and no transcript."""
    run = level_texts.experiment(tmp_path)
    (example,) = examples_of(run.model, run.objective, run.data, "config.data", 1)
    params = variables(run.model, **{name: np.asarray(x) for name, x in example.inputs.items()})
    nothing = {name: np.zeros_like(x) for name, x in example.batch.items()}
    inputs = {name: np.asarray(x) for name, x in run.model.inputs(nothing).items()}
    empty = dataclasses.replace(example, inputs=inputs, batch=nothing)
    (view,), notes = audio_views(run.model, params, run.objective, [empty], jax.random.key(0))
    assert notes == [] and view.paths == {TRANSCRIPT: [], BEST: []} and len(view.features) == 1
    assert spectrogram_picture("nothing", view).startswith(b"\x89PNG")


def test_a_run_with_ctc(level_run: tuple[Path, Path], tmp_path: Path, capsys: Any, monkeypatch: Any) -> None:
    """Its pictures, and its sound in the page up to the limit, which the second example is beyond."""
    monkeypatch.setattr(picture, "MOST_SOUND", 7000)
    record = inspect(capsys, level_run[0], "--examples=2", f"--out={tmp_path}")
    expected = {f"{kind}_{n}.png" for kind in ("spectrogram", "masks") for n in range(2)}
    assert record["names"] == {*expected, "spectrogram_0.wav", "spectrogram_1.wav", "index.html"}
    rate, samples = samples_of((tmp_path / "spectrogram_1.wav").read_bytes())
    assert rate == 8000 and samples.tolist() == [0] * 160 + [round(32767 * 3 / 16)] * 800
    page = (tmp_path / "index.html").read_text()
    (address,) = [line for line in page.splitlines() if "<audio" in line]
    assert base64.b64decode(address.split("base64,")[1].split('"')[0]) == (tmp_path / "spectrogram_0.wav").read_bytes()
    assert "a page has at most 0.007 MB of sound; in its folder is spectrogram_1.wav" in page
    path = level_run[1] / "short.wav"
    record = inspect(capsys, level_run[0], f"--input={path}", f"--out={tmp_path / 'one'}")
    assert record["names"] == {"spectrogram_0.png", "spectrogram_0.wav", "index.html"}


@pytest.mark.parametrize(
    ("flag", "message"),
    [
        ("--input=no.wav", "--input: expected a WAV or FLAC file, got 'no.wav'"),
        ("--query=1,1", "--query: expected a run on images, got 'Utterances'"),
    ],
)
def test_mistakes_are_one_line(level_run: tuple[Path, Path], capsys: Any, flag: str, message: str) -> None:
    capsys.readouterr()
    assert main(["inspect", f"--workdir={level_run[0]}", "--trust=helpers.level_texts", flag]) == 2
    captured = capsys.readouterr()
    assert captured.out == "" and captured.err == f"txjax: {message}\n"


def speech_run(folder: Path, **fields: Any) -> Experiment:
    """A run of one step on three recordings of noise."""
    files = {f"{n}.wav": file(noise(1200 + 100 * n, seed=n)) for n in range(3)}
    rows = [{"audio": name, "text": WORDS[n], "label": WORDS[n % 2]} for n, name in enumerate(files)]
    where = dict(source=write_folder(folder, files, {"train": rows, "test": rows}), rate=8000, samples=1800)
    settings: dict[str, Any] = dict(
        optimizer=AdamW(schedule=Constant()),
        num_steps=1,
        batch_size=3,
        checkpoint=Checkpoints(every_steps=1),
        trackers=(),
    )
    data = fields.pop("data")
    return Experiment(data=dataclasses.replace(data, **where), **settings | fields)


@pytest.mark.slow
def test_a_decoder_of_speech(tmp_path: Path, capsys: Any) -> None:
    """Cross-attention and attention of the encoder below the spectrogram; its CTC has symbols above it."""
    tokenizer = Characters("efhinorstuvwx", specials=("</s>",))
    encoder = {"front_end": FRONT_END, "subsampling": GatedSubsampling(channels=8), "depth": 1}
    model = speech2text(vocab=14, width=8, depth=1, heads=2, encoder=encoder, ctc_head=TokenClasses(15))
    masks = SpecAugment(time=AxisMasks(count=1, width=4))
    data = Utterances(tokenizer=tokenizer, length=8)
    run = speech_run(tmp_path / "data", model=model, objective=JointCTC(augment=masks), data=data)
    assert train(run, tmp_path / "run") == 0
    record = inspect(capsys, tmp_path / "run", "--examples=1", "--layer=0")
    sequences = ("decoder_cross", "encoder_attention", "decoder_attention")
    maps = {f"attention_0_{path}{more}.png" for path in sequences for more in ("", "_mean")}
    others = {"spectrogram_0.png", "spectrogram_0.wav", "masks_0.png", "distance_tokens.png", "distance_features.png"}
    pages = {"tokens.html", "index.html"}
    assert record["names"] == maps | others | pages | {"positions.png"}
    assert record["notes"] == []
    (path, *_) = (tmp_path / "data").glob("*.wav")
    record = inspect(capsys, tmp_path / "run", f"--input={path}", f"--out={tmp_path / 'one'}")
    of_encoder = {name for name in maps if "encoder" in name}
    assert of_encoder < record["names"] and "masks_0.png" not in record["names"]


@pytest.mark.slow
def test_patches_of_a_spectrogram(tmp_path: Path, capsys: Any) -> None:
    """Two prefix tokens, and patches of 4 x 4 at distances of 3: 2 rows and 7 columns."""
    sizes: dict[str, Any] = dict(patch=4, stride=3, width=8, depth=1, heads=2, image_size=(8, 22))
    model = SpectrogramTransformer(**sizes, front_end=FRONT_END, head=Classes(2, MeanPrefix()))
    assert model.grid(8, 22) == (2, 7, 2)
    assert model.grid_area(8, 18) == (0.5, 6.5, 0.5, 21.5)
    run = speech_run(tmp_path / "data", model=model, objective=Classification(), data=LabelledAudio())
    assert train(run, tmp_path / "run") == 0
    record = inspect(capsys, tmp_path / "run", "--examples=1")
    pictures = {"spectrogram_0", "maps_0", "overview", "attention_0_attention", "distance", "positions", "filters"}
    assert {*(f"{name}.png" for name in pictures), "spectrogram_0.wav", "index.html"} == record["names"]
    assert record["notes"] == []


def test_bins_have_the_frequencies_of_their_filters() -> None:
    """Eight mel filters up to 4 kHz; the middle of each is a bin of 31.25 Hz."""
    model = SpectrogramTransformer(front_end=FRONT_END, width=8, depth=1, heads=2)
    frequencies = bin_frequencies(model)
    assert frequencies is not None and len(frequencies) == 8
    assert (np.diff(frequencies) > 0).all() and frequencies[-1] < 4000 and not (frequencies % 31.25).any()


def test_symbols_do_not_overlap() -> None:
    """Those that are apart stay; close ones make room on both sides, and the last one is inside."""
    widths = np.array([2.0, 2.0, 2.0, 2.0])
    np.testing.assert_allclose(spread(np.array([3.0, 10.0, 10.0, 19.9]), widths, 20), [3, 9, 11, 19])
    assert spread(np.zeros(0), np.zeros(0), 20).tolist() == []


def test_the_report_has_the_pictures_of_the_last_inspection(
    level_run: tuple[Path, Path], tmp_path: Path, capsys: Any
) -> None:
    """The spectrograms with their sound and the masks are in the page of the run, which links the page of all."""
    workdir = tmp_path / "run"
    shutil.copytree(level_run[0], workdir)
    record = inspect(capsys, workdir, "--examples=1")
    assert report.run([str(workdir)]) == 0
    page = (workdir / "report" / "index.html").read_text()
    folder = workdir / "inspect" / f"step_{record['step']}"
    for name in ("spectrogram_0.png", "spectrogram_0.wav", "masks_0.png"):
        assert base64.b64encode((folder / name).read_bytes()).decode() in page
    (link,) = [line.split('href="')[1].split('"')[0] for line in page.splitlines() if 'href="..' in line]
    assert (workdir / "report" / link).resolve() == (folder / "index.html").resolve()
