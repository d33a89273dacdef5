"""A run with CTC: it trains, in microbatches too, evaluates and reports; its bad inputs come before the first step."""

import dataclasses
from typing import Any

import numpy as np
import pytest

from txjax.__main__ import main
from txjax.checkpoint import Checkpoints
from txjax.decoding import Ngram, PrefixBeam
from txjax.eval import ErrorRates, Evaluation
from txjax.experiment import Experiment
from txjax.log import read_metrics
from txjax.models.audio.audio_encoder import AudioEncoder
from txjax.nn import TokenClasses
from txjax.nn.attention.relative_attention import RelativeAttention, RelativeSinusoidal
from txjax.nn.audio.spec_augment import SpecAugment
from txjax.nn.audio.subsampling import ImageSubsampling
from txjax.objectives import CTC
from txjax.optim import AdamW, Constant
from txjax.train.check import check
from txjax.train.trainer import train
from txjax.types import UserError

from helpers.arrays import numbers
from helpers.frame_texts import FrameTexts, nest

pytestmark = pytest.mark.claim(
    "Models and objectives", "a run with CTC has the same losses in microbatches, and its error rates in log and report"
)

TEXTS = ("a", "ab b", "aa aa aa ab", "b a")  # the third one has 11 symbols, and 14 with blanks between equal ones
DATA = FrameTexts(features=nest(numbers(4, 48, 8)), frames=(48, 40, 48, 33), texts=TEXTS)


def experiment(**fields: Any) -> Experiment:
    model = AudioEncoder(
        width=8,
        depth=1,
        heads=2,
        subsampling=ImageSubsampling(channels=4),
        positions=RelativeSinusoidal(),
        mixer=RelativeAttention(),
        head=TokenClasses(4),
    )
    beam = PrefixBeam(size=2, ngram=Ngram(order=2))
    evals = {"loss": Evaluation(DATA, every_steps=2), "rates": ErrorRates(DATA, every_steps=2, search=beam)}
    settings: dict[str, Any] = dict(model=model, objective=CTC(augment=SpecAugment()), data=DATA, evals=evals)
    settings |= dict(batch_size=4, num_steps=2, log_every_steps=1, checkpoint=Checkpoints(every_steps=2), trackers=())
    return Experiment(optimizer=AdamW(peak_lr=1e-2, schedule=Constant()), **settings | fields)


@pytest.mark.slow
def test_microbatches_give_the_same_run(tmp_path, capsys):
    assert train(experiment(), tmp_path / "whole") == 0
    assert train(experiment(microbatches=2), tmp_path / "parts") == 0
    whole, parts = (list(read_metrics(tmp_path / name)) for name in ("whole", "parts"))
    for name in ("train/loss", "train/too_long"):
        np.testing.assert_allclose([row[name] for row in parts], [row[name] for row in whole], rtol=1e-4)
    assert whole[0]["train/too_long"] == 0.25  # 12 frames are left of 48
    last = whole[-1]
    assert last["eval/loss/too_long"] == 0.25 and np.isfinite(last["eval/loss/loss"])
    assert last["eval/rates/wer"] == pytest.approx(
        sum(last[f"eval/rates/wer_{kind}"] for kind in ("substitutions", "deletions", "insertions"))
    )
    capsys.readouterr()
    assert main(["report", str(tmp_path / "whole"), f"--out={tmp_path / 'page'}"]) == 0
    assert "errors in" in (tmp_path / "page" / "index.html").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"objective": CTC(blank=7)}, r"config\.objective\.blank: expected a class from -4 to 3, got 7"),
        (
            {"objective": CTC(blank=1)},
            r"config\.objective\.blank: expected the class .*'1, a token of text'",
        ),
        (
            {"checkpoint": Checkpoints(best="eval/rates/wre")},
            r"config\.checkpoint\.best: .*mean eval/rates/wer",
        ),
        ({"objective": CTC(mean="labels")}, r"config\.objective\.mean"),
        (
            {"evals": {"x": ErrorRates(DATA, search=PrefixBeam(ngram=Ngram(order=9)))}},
            r"config\.evals\.x\.search\.ngram\.order",
        ),
    ],
)
def test_errors_before_the_first_step(fields, message):
    with pytest.raises(UserError, match=message):
        check(experiment(**fields))


def test_a_head_with_too_few_classes():
    few = experiment()
    model = few.model.clone(head=TokenClasses(2))
    with pytest.raises(UserError, match=r"config\.model\.head\.classes: expected at least 4, the 3 symbols"):
        check(dataclasses.replace(few, model=model))
