"""A run of a Speech-Transformer on a folder of recordings: trained, evaluated, and its texts generated."""

import dataclasses
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from txjax.__main__ import main
from txjax.checkpoint import Checkpoints
from txjax.data import Characters, NextTokenPacked, Utterances
from txjax.decoding import JointBeam, Ngram, PrefixBeam, Rescoring, Sampling, ShallowFusion
from txjax.eval import ErrorRates, GeneratedTexts, Samples
from txjax.experiment import Experiment
from txjax.log import read_metrics
from txjax.models.audio.speech_transformer import speech2text
from txjax.models.text.decoder import Decoder
from txjax.nn import TokenClasses
from txjax.nn.audio.log_mel import LogMel
from txjax.nn.audio.sequence_subsampling import GatedSubsampling
from txjax.nn.audio.spec_augment import SpecAugment
from txjax.objectives import CTC, JointCTC, NextToken
from txjax.optim import AdamW, Constant
from txjax.train.check import check
from txjax.train.trainer import train
from txjax.types import UserError

from helpers.audio_set import WORDS, file, noise, write_folder

pytestmark = pytest.mark.claim(
    "Generation", "`txjax generate --audio` and evaluations write what a Speech-Transformer hears; errors"
)

TOKENIZER = Characters("efhinorstuvwx", specials=("</s>", "[SOT]", "[EN]"))
GREEDY = Sampling(temperature=0)


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Utterances:
    """Six recordings of noise, with the words of small numbers, each behind a prompt of two tokens."""
    folder = tmp_path_factory.mktemp("recordings")
    files = {f"{n}.wav": file(noise(1200 + 100 * n, seed=n)) for n in range(6)}
    rows = [{"audio": name, "text": WORDS[n]} for n, name in enumerate(files)]
    data_dir = write_folder(folder, files, {"train": rows})
    fields: dict[str, Any] = dict(rate=8000, samples=1800, length=9, tokenizer=TOKENIZER, prompt=("[SOT]", "[EN]"))
    return Utterances(source=data_dir, **fields)


def experiment(data: Any, **fields: Any) -> Experiment:
    front_end = LogMel(rate=8000, window=200, hop=80, fft=256, mels=8)
    encoder = {"front_end": front_end, "subsampling": GatedSubsampling(channels=16), "depth": 1}
    settings: dict[str, Any] = dict(
        model=speech2text(vocab=16, width=32, depth=1, heads=2, encoder=encoder),
        objective=NextToken(),
        data=data,
        optimizer=AdamW(peak_lr=1e-2, weight_decay=0.0, schedule=Constant()),
        num_steps=150,
        batch_size=6,
        log_every_steps=50,
        checkpoint=Checkpoints(every_steps=150),
        trackers=(),
    )
    return Experiment(**settings | fields)


def ask(capsys: Any, *words: Any) -> tuple[int, str, str]:
    code = main(["generate", *map(str, words)])
    captured = capsys.readouterr()
    return code, captured.out, captured.err


@pytest.mark.slow
def test_what_is_heard_is_written(data: Utterances, tmp_path: Path, capsys: Any) -> None:
    """Recordings that were learned by heart have no errors, in evaluations and from a copy at another rate."""
    first = str(Path(data.source or "") / "2.wav")
    evals = {
        "rates": ErrorRates(data, every_steps=150, search=GREEDY),
        "texts": GeneratedTexts(data, metrics=("exact_match",), every_steps=150, search=GREEDY, batch_size=4),
        "samples": Samples(data, prompts=(first,), texts=1, length=6, every_steps=150, search=GREEDY),
    }
    workdir = tmp_path / "run"
    assert train(experiment(data, evals=evals), workdir) == 0
    last = list(read_metrics(workdir))[-1]
    assert last["eval/rates/wer"] == 0 and last["eval/texts/exact_match"] == 1
    assert (workdir / "samples" / "samples" / "150.txt").read_text().endswith(f"{first}\nthree\n")
    head = (workdir / "samples" / "texts" / "150.txt").read_text().split("\n\n")[1]
    assert head.startswith("source: ") and "(2.wav)" in head and head.endswith("target: three\noutput: three")
    stereo = tmp_path / "stereo.flac"
    both = np.repeat(noise(1200, seed=0), 2)[:, None].repeat(2, 1)
    stereo.write_bytes(file(both, rate=16000, kind="FLAC"))
    capsys.readouterr()
    audio = f"--audio={first},{stereo}"
    code, out, err = ask(capsys, f"--workdir={workdir}", audio, "--beam=2", "--length=7", "--json")
    assert code == 0
    records = [json.loads(line) for line in out.splitlines()]
    assert [record["prompt"] for record in records] == [first, str(stereo)]
    assert records[0]["texts"] == ["three"]
    assert f"{stereo}: its 2 channels are mixed to one" in err
    assert f"{stereo}: resampled from 16000 Hz to 8000 Hz" in err
    cases = [
        (["--prompt=a"], "--prompt: expected --audio=FILE, since the run reads audio, got 'a'"),
        ([], "--audio: expected WAV or FLAC files, since the run reads audio, got None"),
        (["--audio=no.wav"], "--audio: expected a WAV or FLAC file, got 'no.wav'"),
    ]
    for flags, message in cases:
        code, _, err = ask(capsys, f"--workdir={workdir}", *flags)
        assert code == 2 and message in err


@pytest.mark.slow
def test_a_language_model_has_a_part_in_the_beam(data: Utterances, tmp_path: Path, capsys: Any) -> None:
    """With a large weight it writes a text that the language model has learned, whatever it hears."""
    texts = NextTokenPacked(source=data.source, length=9, tokenizer=TOKENIZER, start="</s>", end="</s>")
    model = Decoder(vocab=16, width=32, depth=1, heads=2)
    fields: dict[str, Any] = dict(num_steps=60, checkpoint=Checkpoints(every_steps=60))
    language, workdir = tmp_path / "language", tmp_path / "run"
    assert train(experiment(texts, model=model, **fields), language) == 0
    evals: dict[str, Any] = {
        "fused": ErrorRates(data, search=JointBeam(4), language=ShallowFusion(str(language), weight=20.0)),
        "rescored": ErrorRates(data, search=PrefixBeam(4), language=Rescoring(str(language))),
    }
    assert train(joint(data, evals=evals, num_steps=1), workdir) == 0
    capsys.readouterr()
    assert main(["evaluate", f"--workdir={workdir}", "--json"]) == 0
    scores = json.loads(capsys.readouterr().out)
    row = list(read_metrics(workdir))[-1]
    for name in evals:
        assert scores[f"eval/{name}/wer"] == row[f"eval/{name}/wer"]
        origin = (workdir / "samples" / name / "1.txt").read_text().splitlines()[0]
        assert f" by {language} at step 60, digest " in origin
    recording = f"--audio={Path(data.source or '') / '2.wav'}"
    flags = [f"--workdir={workdir}", recording, "--beam=4", "--length=7", "--json"]
    records = {}
    for weight in (None, "0", "20"):
        added = [] if weight is None else [f"--lm={language}@60", f"--lm_weight={weight}"]
        code, out, err = ask(capsys, *flags, *added)
        assert code == 0 and (f"ShallowFusion by {language} at step 60, digest " in err) == (weight == "20")
        records[weight] = json.loads(out)
    assert records["0"] == records[None]
    assert records["20"]["texts"][0] in WORDS and records["20"]["scores"] != records["0"]["scores"]
    for words, message in (
        ([f"--lm={language}"], "--lm: expected --beam too"),
        (["--beam=2", "--lm_weight=.3"], "--lm_weight: expected --lm=RUN too, got 0.3"),
        (["--beam=2", f"--lm={language}", "--lm_weight=-1"], "--lm_weight: expected at least 0"),
        (["--beam=2", "--lm=no"], "--lm: expected the folder of a run (with a config.json), got 'no'"),
        (["--beam=2", f"--lm={workdir}"], "--lm: expected a run of texts alone, got 'Utterances in "),
    ):
        code, _, err = ask(capsys, f"--workdir={workdir}", recording, *words)
        assert code == 2 and message in err and len(err.splitlines()) == 1
    code, _, err = ask(capsys, f"--workdir={language}", "--prompt=one", "--beam=2", f"--lm={language}")
    assert code == 2 and "--lm: expected a run of a model that reads audio or a source" in err


def joint(data: Utterances, **fields: Any) -> Experiment:
    """With a head of CTC on twice as many frames, since "three" needs six."""
    plain = experiment(data).model
    encoder = plain.encoder.clone(subsampling=GatedSubsampling(channels=16, strides=(2,)))
    settings: dict[str, Any] = dict(model=plain.clone(encoder=encoder, ctc_head=TokenClasses(17)), objective=JointCTC())
    settings |= dict(num_steps=100, checkpoint=Checkpoints(every_steps=100))
    return experiment(data, **settings | fields)


@pytest.mark.slow
def test_ctc_and_attention_hear_the_same(data: Utterances, tmp_path: Path, capsys: Any) -> None:
    """A joint run is scored by both, by the joint beam and by searches of CTC alone."""
    searches = {"joint": JointBeam(2), "greedy": GREEDY, "ctc": PrefixBeam(4, ngram=Ngram(2), ngram_weight=0.1)}
    evals: dict[str, Any] = {name: ErrorRates(data, search=s, every_steps=100) for name, s in searches.items()}
    evals["texts"] = GeneratedTexts(data, metrics=("exact_match",), every_steps=100, search=JointBeam(2), batch_size=4)
    workdir = tmp_path / "run"
    assert train(joint(data, evals=evals), workdir) == 0
    rows = list(read_metrics(workdir))
    assert {name: rows[-1][f"eval/{name}/wer"] for name in searches} == dict.fromkeys(searches, 0)
    assert rows[-1]["eval/texts/exact_match"] == 1
    terms = rows[0]["train/ctc"] + rows[0]["train/next_token"]
    assert rows[0]["train/loss"] == pytest.approx(terms) and rows[0]["train/too_long"] == 0
    capsys.readouterr()
    audio = [f"--audio={Path(data.source or '') / '2.wav'}", "--length=7", "--json"]
    answers = {}
    for weight in ("0", "0.5"):
        code, out, _ = ask(capsys, f"--workdir={workdir}", *audio, "--beam=2", f"--ctc_weight={weight}")
        answers[weight] = json.loads(out)
        assert code == 0
    assert answers["0.5"]["texts"] == ["three"]
    code, out, _ = ask(capsys, f"--workdir={workdir}", *audio, "--beam=2")
    assert json.loads(out) == answers["0"] != answers["0.5"]
    for flags, message in (
        (["--ctc_weight=.3"], "--ctc_weight: expected --beam too, got 0.3"),
        (["--beam=2", "--ctc_weight=3"], "--ctc_weight: expected at most 1"),
    ):
        code, _, err = ask(capsys, f"--workdir={workdir}", *audio, *flags)
        assert code == 2 and message in err


def test_recordings_that_are_unusable_are_one_line(data: Utterances, tmp_path: Path) -> None:
    from txjax.decoding import prompts_for

    form = prompts_for(data, "data")
    contents = {
        "silent": (file(np.zeros(1200, np.float32)), r"--audio: expected a usable WAV or FLAC file, got .*: silent"),
        "empty": (b"", r"got .*: an empty file"),
        "text": (b"words", r"got .*: neither WAV nor FLAC"),
        "long": (file(noise(4000)), r"--audio: expected at most 1800 samples at 8000 Hz, data\.samples, got '4000 in"),
    }
    for name, (content, message) in contents.items():
        path = tmp_path / f"{name}.wav"
        path.write_bytes(content)
        with pytest.raises(UserError, match=message):
            form.inputs([str(path)], "--audio")


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        (
            {"objective": NextToken()},
            r"config\.evals\.x\.search: expected an objective that trains config\.model\.ctc_",
        ),
        ({"model": None}, r"config\.model\.ctc_head: expected TokenClasses\(\.\.\.\), for JointCTC, got None"),
        ({"classes": 9}, r"config\.model\.ctc_head\.classes: expected at least 17, the 16 symbols of config\.data and"),
        ({"objective": JointCTC(ctc=CTC(blank=1))}, r"config\.objective\.ctc\.blank: expected the class of the blank"),
        ({"objective": JointCTC(ctc=CTC(augment=SpecAugment()))}, r"config\.objective\.ctc\.augment: expected None"),
        ({"objective": JointCTC(ctc_weight=1)}, r"config\.objective\.ctc_weight: expected less than 1, got 1"),
    ],
)
def test_joint_settings_that_do_not_fit(data: Utterances, fields: dict[str, Any], message: str) -> None:
    run = joint(data, evals={"x": ErrorRates(data, search=JointBeam())})
    if "classes" in fields:
        fields = {"model": run.model.clone(ctc_head=TokenClasses(fields["classes"]))}
    elif "model" in fields:
        fields = {"model": run.model.clone(ctc_head=None)}
    with pytest.raises(UserError, match=message):
        check(dataclasses.replace(run, **fields))


def test_settings_that_do_not_fit_come_before_the_first_step(data: Utterances) -> None:
    decoder = Decoder(vocab=16, width=8, depth=1, heads=2)
    evals: dict[str, Any] = {"texts": GeneratedTexts(data, metrics=("exact_match",), search=GREEDY)}
    with pytest.raises(UserError, match=r"config\.model: expected a model with features, such as SpeechTransformer"):
        check(experiment(data, model=decoder, evals=evals))
