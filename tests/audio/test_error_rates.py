"""Word and character error rates of known texts, by CTC and by a decoder, with intervals and a list of the worst."""

import dataclasses
import itertools

import jax
import numpy as np
import pytest

from txjax.data.tokenizers.tokenizer import Characters
from txjax.decoding import BestPath, Ngram, PrefixBeam, Sampling
from txjax.eval import ErrorRates
from txjax.eval.bootstrap_intervals import intervals
from txjax.experiment import Experiment
from txjax.objectives import CTC, NextToken
from txjax.train.check import check
from txjax.types import UserError

from helpers.evaluations import Copier, Tagged, Tagger, measure
from helpers.frame_texts import Frames, FrameTexts, SourceTexts, nest

pytestmark = pytest.mark.claim(
    "Evaluation",
    "word and character error rates are jiwer's for the normalised texts, with substitutions, deletions, insertions "
    "and intervals; the worst texts are listed",
)

TEXTS = ("a b", "ab ba", "", "aa b")
OUTPUTS = ("a b", "ab b", "a", "b")  # right; a substitution; an insertion; a deletion
SCORES = {
    "wer": 3 / 6,
    "wer_substitutions": 1 / 6,
    "wer_deletions": 1 / 6,
    "wer_insertions": 1 / 6,
    "cer": 5 / 12,
    "cer_substitutions": 0,
    "cer_deletions": 4 / 12,
    "cer_insertions": 1 / 12,
}
LISTING = """\
wer = 0.5000 (substitutions 0.1667, deletions 0.1667, insertions 0.1667)
cer = 0.4167 (substitutions 0.0000, deletions 0.3333, insertions 0.0833)

example 3: errors in 1 of 2 words, 3 of 4 characters
REF: aa b
HYP: ** b
      D

example 1: errors in 1 of 2 words, 1 of 5 characters
REF: ab ba
HYP: ab  b
         S
"""
ALPHABET, BLANK = " ab", 3


def spell(text: str, frames: int = 10) -> np.ndarray:
    """Logits [frames 4] whose best path is the text, with a blank after each symbol."""
    path = [*itertools.chain.from_iterable((ALPHABET.index(c), BLANK) for c in text)]
    return 9 * np.eye(4, dtype=np.float32)[path + [BLANK] * (frames - len(path))]


LOGITS = np.stack([spell(text) for text in OUTPUTS])
DATA = FrameTexts(features=nest(LOGITS), frames=(10,) * 4, texts=TEXTS)


@pytest.mark.parametrize(
    ("search", "devices"),
    [(BestPath(), 1), (PrefixBeam(size=3), 1), pytest.param(PrefixBeam(size=3), 8, marks=pytest.mark.mesh)],
)
def test_rates_intervals_and_the_worst_texts(search, devices, tmp_path):
    assert jax.device_count() == devices
    evaluation, results = ErrorRates(DATA, search=search, count=2), {}
    scores = measure(Frames(), CTC(), evaluation, folder=tmp_path, results=results)
    assert scores == pytest.approx(SCORES)
    assert (tmp_path / "samples" / "x" / "7.txt").read_text() == LISTING
    assert evaluation.rescore(results["x"]) == pytest.approx(SCORES)
    assert results["x"]["id"].tolist() == [0, 1, 2, 3]
    spoken = {name: column[[0, 1, 3]] for name, column in results["x"].items()}  # every resample has words
    ranges = intervals(evaluation.rescore, spoken)
    assert set(ranges) == set(SCORES) and ranges["wer"] == (0, 0.5)


def test_batches_and_frames_behind_the_end_change_nothing(tmp_path):
    features = np.concatenate([LOGITS, np.full((4, 3, 4), np.nan, np.float32)], 1)
    evaluation = ErrorRates(dataclasses.replace(DATA, features=nest(features)), batch_size=3)
    assert measure(Frames(), CTC(), evaluation) == pytest.approx(SCORES)


@dataclasses.dataclass
class OneLetter:
    """A normalisation to which both letters are the same."""

    def __call__(self, text: str) -> str:
        return text.replace("b", "a")


def test_texts_are_normalised_as_the_data_say():
    evaluation = ErrorRates(dataclasses.replace(DATA, normalization=OneLetter()))
    scores = measure(Frames(), CTC(), evaluation)
    assert scores["wer"] == pytest.approx(3 / 6) and scores["cer"] == pytest.approx(5 / 12)
    swapped = dataclasses.replace(DATA, texts=("b a", "ba ab", "", "bb a"), normalization=OneLetter())
    assert measure(Frames(), CTC(), ErrorRates(swapped)) == scores


def test_an_ngram_is_counted_from_the_training_transcripts():
    features = np.full((1, 10, 4), -5, np.float32)
    features[0, 0] = [-5, 1.0, 1.2, -5]  # a little more likely "b"
    features[0, 1:, BLANK] = 5
    data = FrameTexts(features=nest(features), frames=(10,), texts=("a",))
    beam = PrefixBeam(size=4, ngram=Ngram(order=2), ngram_weight=1.0)
    train = dataclasses.replace(data, texts=("a", "a a", "a"))
    for search, rate in ((BestPath(), 1), (beam, 0)):
        assert measure(Frames(), CTC(), ErrorRates(data, search=search), data=train)["wer"] == rate


def test_a_decoder_writes_its_texts_token_by_token():
    data = SourceTexts(texts=TEXTS, outputs=OUTPUTS, tokenizer=Characters(ALPHABET, ("[START]", "[END]")))
    evaluation = ErrorRates(data, search=Sampling(temperature=0))
    assert measure(Copier(vocab=5), NextToken(), evaluation) == pytest.approx(SCORES)


@pytest.mark.parametrize(
    ("model", "objective", "evaluation", "message"),
    [
        (
            Frames(),
            CTC(),
            ErrorRates(DATA, search=Sampling()),
            r"evals\.x\.data\.tokenizer: .*an end token, for a decoder",
        ),
        (Tagger(), NextToken(), ErrorRates(DATA), r"evals\.x\.search: expected a search of a decoder, got 'BestPath'"),
        (
            Frames(),
            CTC(),
            ErrorRates(Tagged()),
            r"evals\.x\.data: expected examples with .*transcript",
        ),
    ],
)
def test_user_errors_before_compilation(model, objective, evaluation, message):
    data = DATA if isinstance(objective, CTC) else Tagged()
    experiment = Experiment(model=model, objective=objective, data=data, evals={"x": evaluation}, batch_size=4)
    with pytest.raises(UserError, match=message):
        check(experiment)


def test_transcripts_without_words_have_no_rate():
    empty = dataclasses.replace(DATA, features=DATA.features[:2], texts=("", ""), frames=(10, 10))
    assert measure(Frames(), CTC(), ErrorRates(empty)) == {}
