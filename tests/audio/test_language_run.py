"""Runs of language models beside searches of speech: the texts that they change, and settings that don't fit."""

import dataclasses
import json
import shutil
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest

from txjax.checkpoint import Checkpoints, Store
from txjax.data import Characters, NextTokenPacked
from txjax.decoding import Beam, BestPath, PrefixBeam, Rescoring, ShallowFusion
from txjax.eval import ErrorRates
from txjax.experiment import Experiment
from txjax.io import digest
from txjax.models.text.decoder import Decoder
from txjax.objectives import CTC, NextToken
from txjax.optim import AdamW, Constant
from txjax.train.check import check
from txjax.train.trainer import train
from txjax.types import UserError

from helpers.audio_set import file, noise, write_folder
from helpers.evaluations import Copier, measure
from helpers.frame_texts import Frames, FrameTexts, SourceTexts, nest

pytestmark = pytest.mark.claim(
    "Evaluation",
    "the run of a language model rescores the texts of a beam of CTC, or adds its score in that of a decoder; the "
    "evaluation's file has its step and digest",
)

SPOKEN = Characters(" ab", ("[START]", "[END]"))
BLANK = 3


@pytest.fixture(scope="module")
def language(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run that has learned that the only word is "a", from the transcripts of a folder of recordings."""
    folder = tmp_path_factory.mktemp("recordings")
    rows = [{"audio": f"{n}.wav", "text": "a"} for n in range(4)]
    data_dir = write_folder(folder, {f"{n}.wav": file(noise(800, seed=n)) for n in range(4)}, {"train": rows})
    fields: dict[str, Any] = dict(length=6, tokenizer=SPOKEN, start="[START]", end="[END]")
    experiment = Experiment(
        model=Decoder(vocab=5, width=16, depth=1, heads=2),
        objective=NextToken(),
        data=NextTokenPacked(source=data_dir, **fields),
        optimizer=AdamW(peak_lr=3e-2, schedule=Constant()),
        num_steps=40,
        batch_size=8,
        checkpoint=Checkpoints(every_steps=20),
        trackers=(),
    )
    workdir = tmp_path_factory.mktemp("language") / "run"
    assert train(experiment, workdir) == 0
    return workdir


def frames() -> FrameTexts:
    """Two recordings of "a", of which CTC finds "b" a little more likely, and none of its symbols in the second."""
    features = np.full((2, 10, 4), -5, np.float32)
    features[:, 0] = [-5, 1.0, 1.2, -5]
    features[:, 1:, BLANK] = 5
    return FrameTexts(features=nest(features), frames=(10, 10), texts=("a", "a"))


@pytest.mark.parametrize("devices", [1, pytest.param(8, marks=pytest.mark.mesh)])
def test_texts_of_a_beam_are_rescored(language: Path, tmp_path: Path, devices: int) -> None:
    """By the run's own tokenizer, which has two tokens more."""
    assert jax.device_count() == devices
    rescoring = Rescoring(f"{language}@20", weight=1.0, bonus=0.5)
    evaluation = ErrorRates(frames(), search=PrefixBeam(4), language=rescoring)
    plain = ErrorRates(frames(), search=PrefixBeam(4))
    assert measure(Frames(), CTC(), plain)["wer"] == 1
    assert measure(Frames(), CTC(), evaluation, folder=tmp_path)["wer"] == 0
    origin, rates = (tmp_path / "samples" / "x" / "7.txt").read_text().splitlines()[:2]
    digested = digest.of_all(Store(language).path(20))
    assert origin == f"Rescoring by {language} at step 20, digest {digested}, weight 1.0, bonus 0.5"
    assert rates.startswith("wer = 0.0000")


@pytest.mark.parametrize(
    ("beam", "language_model", "wer"),
    [
        (Beam(2), ShallowFusion("", 0.0), 5 / 6),
        (Beam(2), ShallowFusion("", 50.0), 6 / 6),
        pytest.param(Beam(2), ShallowFusion("", 50.0), 6 / 6, marks=pytest.mark.mesh),
        (Beam(24), Rescoring("", 0.0), 5 / 6),
        (Beam(24), Rescoring("", 50.0), 6 / 6),  # the beam has all texts that differ from the first by a token
    ],
)
def test_a_decoder_writes_what_a_language_model_likes(
    language: Path, tmp_path: Path, beam: Beam, language_model: Any, wer: float
) -> None:
    """Without weight "a b", which it hears; with a large one "a", the text that the language model has learned."""
    data = SourceTexts(texts=("a b", "ab ba", "", "aa b"), outputs=("a b",) * 4, tokenizer=SPOKEN)
    evaluation = ErrorRates(data, search=beam, language=dataclasses.replace(language_model, run=str(language)))
    assert measure(Copier(vocab=5), NextToken(), evaluation, folder=tmp_path)["wer"] == pytest.approx(wer)
    first_line = (tmp_path / "samples" / "x" / "7.txt").read_text().splitlines()[0]
    assert first_line.startswith(f"{type(language_model).__name__} by {language} at step 40, digest ")


@pytest.mark.parametrize(
    ("search", "settings", "message"),
    [
        (BestPath(), Rescoring("RUN"), r"x\.language: expected None, or a search of several texts.*BestPath has one"),
        (PrefixBeam(), ShallowFusion("RUN"), r"x\.language: expected Rescoring\(\), .*a cache has one index for all"),
        (PrefixBeam(), Rescoring("no/run"), r"x\.language\.run: expected the folder of a run .*no such folder"),
        (PrefixBeam(), Rescoring("RUN@30"), r"x\.language\.run: .*one of \[20, 40\], got '30'"),
        (PrefixBeam(), Rescoring("CTC"), r"x\.language\.run: expected a run of a causal model.*got 'CTC in "),
        (PrefixBeam(), Rescoring("RUN", weight=-1), r"x\.language\.weight: expected at least 0"),
    ],
)
def test_settings_that_do_not_fit(language: Path, tmp_path: Path, search: Any, settings: Any, message: str) -> None:
    other = edited(language, tmp_path / "ctc", objective={"class": "txjax.objectives.ctc.CTC"})
    run = settings.run.replace("RUN", str(language)).replace("CTC", str(other))
    evals: Any = {"x": ErrorRates(frames(), search=search, language=dataclasses.replace(settings, run=run))}
    with pytest.raises(UserError, match=message):
        check(Experiment(model=Frames(), objective=CTC(), data=frames(), evals=evals, batch_size=2))


def test_vocabularies_that_do_not_fit(language: Path, tmp_path: Path) -> None:
    """A beam needs the same tokens and end in both models, rescoring needs the letters alone."""
    more = Characters(" abc", ("[START]", "[END]"))
    data = json.loads((language / "config.json").read_text())["data"]
    endless = edited(language, tmp_path / "endless", data=data | {"end": None})
    cases: list[tuple[Path, Any, Characters, str]] = [
        (
            language,
            ShallowFusion,
            more,
            r"the recogniser's vocabulary, 6 tokens of .*got '5 tokens of .*Rescoring\(\), which reads texts",
        ),
        (language, Rescoring, more, r"x\.language\.run: expected a run whose tokenizer has the letters.*none of 'c'"),
        (endless, ShallowFusion, SPOKEN, r"a run whose texts end with \[END\], .*got 'no such token'; its data have"),
    ]
    for run, kind, tokenizer, message in cases:
        texts = dataclasses.replace(frames(), tokenizer=tokenizer)
        evals: Any = {"x": ErrorRates(texts, search=Beam(2), language=kind(str(run)))}
        with pytest.raises(UserError, match=message):
            check(Experiment(model=Frames(), objective=CTC(), data=frames(), evals=evals, batch_size=2))


def edited(language: Path, workdir: Path, **fields: Any) -> Path:
    """A copy of a run with other fields in its config."""
    shutil.copytree(language, workdir)
    config = json.loads((workdir / "config.json").read_text())
    (workdir / "config.json").write_text(json.dumps(config | fields))
    return workdir
