"""The texts of a model that copies its source, whose metrics are sacrebleu's for these texts."""

import dataclasses
import importlib.util
import json

import jax
import numpy as np
import pytest
import sacrebleu
import scipy.stats
import sklearn.metrics

from txjax import sharding
from txjax.__main__ import main
from txjax.checkpoint import Checkpoints
from txjax.data import Bytes, NextTokenWindows, Pairs, Tasks
from txjax.decoding import Beam, Sampling
from txjax.eval import GeneratedTexts
from txjax.eval.text.text_metrics import compare
from txjax.experiment import Experiment
from txjax.log import read_metrics
from txjax.models.text.encoder_decoder import EncoderDecoder
from txjax.nn import Learned
from txjax.objectives import MultiTask, NextToken
from txjax.optim import AdamW, Constant
from txjax.sharding import Mesh
from txjax.train.check import check
from txjax.train.run_eval import evaluator
from txjax.train.trainer import train
from txjax.types import UserError

from helpers import sentence_set
from helpers.evaluations import HELD, Bigrams, Copier, measure

pytestmark = pytest.mark.claim(
    "Evaluation",
    "metrics of generated texts are sacrebleu's for the raw texts; one program for each length of sources; errors",
)

TEXTS = [record["first"] for record in sentence_set.records(60) if record["first"]]
READ = 24  # bytes of the source that are read, with the end token
COPIES = [text.encode()[: READ - 1].decode(errors="replace") for text in TEXTS]
GREEDY = Sampling(temperature=0)


@pytest.fixture(scope="module")
def pairs(tmp_path_factory):
    data_dir = sentence_set.prepare(tmp_path_factory.mktemp("tfds"))
    return Pairs("made_sentences", "train", data_dir, "{first}", "{first}", source_length=READ, length=28)


@pytest.mark.parametrize(
    ("search", "devices"), [(GREEDY, 1), (Beam(size=2), 1), pytest.param(Beam(size=2), 8, marks=pytest.mark.mesh)]
)
def test_the_metrics_are_sacrebleus_for_the_raw_texts(pairs, search, devices, tmp_path):
    assert jax.device_count() == devices
    metrics = ("bleu", "chrf", "ter", "exact_match")
    evaluation = GeneratedTexts(pairs, metrics=metrics, search=search, count=2)
    scores = measure(Copier(), NextToken(), evaluation, folder=tmp_path)
    same = np.mean([text == copy for text, copy in zip(TEXTS, COPIES, strict=True)])
    assert 0 < same < 1
    assert scores == {
        "bleu": sacrebleu.corpus_bleu(COPIES, [TEXTS]).score,
        "chrf": sacrebleu.corpus_chrf(COPIES, [TEXTS]).score,
        "ter": sacrebleu.corpus_ter(COPIES, [TEXTS]).score,
        "exact_match": pytest.approx(same),
    }
    metric = sacrebleu.metrics.BLEU()
    wanted = metric.corpus_score(COPIES, [TEXTS])
    head, *written = (tmp_path / "samples" / "x" / "7.txt").read_text().split("\n\n")
    assert head.splitlines()[0] == wanted.format(signature=str(metric.get_signature()))
    assert [line.split("|")[0] for line in head.splitlines()[1:3]] == ["chrF2", "TER"]
    assert len(written) == 2
    assert written[1].strip() == f"source: {TEXTS[1]}\ntarget: {TEXTS[1]}\noutput: {COPIES[1]}"


class TracedSampling(Sampling):
    """Greedy, with the shapes of sources that a program was traced for."""

    traced = []

    def __call__(self, generator, variables, inputs, *more):
        self.traced.append(inputs["source_tokens"].shape)
        return super().__call__(generator, variables, inputs, *more)


def test_batches_of_few_lengths_have_a_program_each(pairs):
    """The lengths of targets need none: nothing is read of them."""
    data = dataclasses.replace(pairs, buckets=((8, 8), (8, 28), (READ, 8), (READ, 28)))
    evaluation = GeneratedTexts(data, metrics=("exact_match",), search=TracedSampling(temperature=0), batch_size=1)
    experiment = Experiment(model=Copier(), objective=NextToken(), data=data, evals={"x": evaluation}, batch_size=1)
    with sharding.use_mesh(Mesh(), jax.devices()[:1]) as built:
        scores = evaluator(experiment, sharding.batch_sharding(built, Mesh()))("x", HELD, 0)
    assert sorted(TracedSampling.traced) == [(1, 8), (1, READ)]
    assert scores == measure(Copier(), NextToken(), dataclasses.replace(evaluation, data=pairs, batch_size=None))


def test_one_of_several_tasks_and_the_first_batches(pairs):
    few = GeneratedTexts(pairs, metrics=("exact_match",), search=GREEDY, max_batches=1)
    same = np.mean([text == copy for text, copy in zip(TEXTS[:16], COPIES[:16], strict=True)])
    assert measure(Copier(), NextToken(), few) == {"exact_match": pytest.approx(same)}
    tasks, several = Tasks(parts={"copy": pairs}), MultiTask(tasks={"copy": NextToken()})
    assert measure(Copier(), several, dataclasses.replace(few, task="copy"), data=tasks)["exact_match"] > 0


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        (dict(metrics=("belu",)), "config.evals.x.metrics: expected some of bleu, chrf, .*; did you mean bleu"),
        (dict(metrics=()), "config.evals.x.metrics: expected some of bleu"),
        (dict(search=Beam(end=(258,))), "config.evals.x.search.end: expected tokens below 258, got 258"),
        (dict(model=Bigrams(vocab=258)), "config.model: expected a model with source_tokens, .*got 'Bigrams'"),
        (dict(length=40), "positions"),
        (
            dict(data=NextTokenWindows(name="txjax_python_text", length=16)),
            "config.evals.x.data: expected examples with .*source_tokens",
        ),
    ],
)
def test_user_errors_before_compilation(pairs, fields, said):
    data = fields.pop("data", dataclasses.replace(pairs, length=fields.pop("length", 28)))
    windows = NextTokenWindows(name="txjax_python_text", length=16, tokenizer=Bytes(("[START]", "[END]")))
    model = EncoderDecoder(vocab=258, width=8, depth=1, heads=1, positions=Learned(max_length=28))
    model = fields.pop("model", model)
    train_on = windows if isinstance(model, Bigrams) else pairs
    evals = {"x": GeneratedTexts(data, **fields)}
    with pytest.raises(UserError, match=said):
        check(Experiment(model=model, objective=NextToken(), data=train_on, evals=evals, batch_size=8))


def test_sacrebleu_is_an_extra(pairs, monkeypatch):
    found = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name, *_: None if name == "sacrebleu" else found(name))
    experiment = Experiment(model=Copier(), objective=NextToken(), data=pairs, evals={"x": GeneratedTexts(pairs)})
    with pytest.raises(UserError, match=r"config.evals.x.metrics: .*sacrebleu .*pip install 'txjax\[text\]'"):
        check(experiment)
    experiment.evals["x"].metrics = ("exact_match",)
    check(experiment)


@pytest.mark.slow
def test_evaluate_gives_the_score_of_the_log(pairs, tmp_path, capsys):
    evals = {"texts": GeneratedTexts(dataclasses.replace(pairs, split="test"), every_steps=2)}
    experiment = Experiment(
        model=EncoderDecoder(vocab=258, width=8, depth=1, heads=1),
        objective=NextToken(),
        data=pairs,
        evals=evals,
        optimizer=AdamW(schedule=Constant()),
        checkpoint=Checkpoints(every_steps=2),
        num_steps=4,
        batch_size=8,
        trackers=(),
    )
    assert train(experiment, tmp_path / "run") == 0
    logged = {row["step"]: row["eval/texts/chrf"] for row in read_metrics(tmp_path / "run") if "eval/texts/chrf" in row}
    assert set(logged) == {2, 4}
    texts = (tmp_path / "run/samples/texts/4.txt").read_text()
    capsys.readouterr()
    assert main(["evaluate", f"--workdir={tmp_path / 'run'}", "--json"]) == 0
    scores = json.loads(capsys.readouterr().out)
    assert scores["eval/texts/chrf"] == logged[4]
    assert (tmp_path / "run/samples/texts/4.txt").read_text() == texts


def test_classes_and_numbers_as_text():
    outputs = ["not acceptable", " acceptable", "", "acceptable "]
    targets = ["not acceptable", "acceptable", "acceptable", "not acceptable"]
    scores, lines = compare(outputs, targets, ("matthews", "exact_match"))
    assert scores["exact_match"] == 0.5 and lines[1] == "exact_match = 0.5000"
    numbers = {text.strip(): i for i, text in enumerate(sorted(outputs))}
    wanted = sklearn.metrics.matthews_corrcoef([numbers[t] for t in targets], [numbers[o.strip()] for o in outputs])
    assert scores["matthews"] == pytest.approx(wanted)
    scores, _ = compare(["1.2", "no", "nan", "4.0 "], ["1.0", "2.0", "3.0", "5.0"], ("pearson", "spearman"))
    assert scores["pearson"] == pytest.approx(np.corrcoef([1.2, -1, -1, 4], [1, 2, 3, 5])[0, 1])
    assert scores["spearman"] == pytest.approx(scipy.stats.spearmanr([1.2, -1, -1, 4], [1, 2, 3, 5]).statistic)
