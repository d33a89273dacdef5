"""Few-shot prompting: likelihoods by explicit calls of the model, rules by their formulas, accuracies, the picture."""

import dataclasses

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from txjax.data import NextTokenWindows, PromptedChoices, PromptedPairs, eval_batches
from txjax.eval import Contextual, DomainPMI, Likeliest, PerByte, PerToken, Prompted
from txjax.eval.text.answer_rules import Likelihoods
from txjax.eval.text.prompted import answer_likelihoods
from txjax.experiment import Experiment
from txjax.models.text.decoder.decoder import Decoder, gpt
from txjax.models.text.encoder_decoder.encoder_decoder import EncoderDecoder
from txjax.nn import Logits
from txjax.objectives import MaskedToken, NextToken
from txjax.sharding import Mesh
from txjax.train.check import check
from txjax.types import UserError

from helpers import sentence_set
from helpers.arrays import forward, variables
from helpers.evaluations import Bigrams, measure

pytestmark = pytest.mark.claim(
    "Evaluation",
    "prompts: their texts, tokens of the answers, draws, what doesn't fit; likelihoods row by row, rules by their "
    "formulas",
)

NAMES = ("no", "yes, sir", "maybe")
SIZES = np.array([[len(name) for name in NAMES]])
FIRST = [record["first"] for record in sentence_set.records(10)]
LABELS = np.array([record["label"] for record in sentence_set.records(10)])
TEXT = NextTokenWindows(name="txjax_python_text", split="validation", length=16)
MODEL, NEXT = Decoder(vocab=256, width=8, depth=1, heads=2), NextToken()
PARAMS, PREDICT = variables(MODEL, np.zeros((1, 4), np.int32)), forward(MODEL)


class Oracle(nn.Module):
    """After a quarter as "12.25:", four times that, modulo 3, as a digit: the label of `made_sentences`."""

    vocab: int = 257

    @nn.compact
    def __call__(self, tokens, segments=None, train=False):
        scale = self.param("scale", nn.initializers.ones, ())
        digits = [jnp.pad(tokens, ((0, 0), (back, 0)))[:, : tokens.shape[1]] - ord("0") for back in (5, 4, 2, 1)]
        quarters = sum(digit * value for digit, value in zip(digits, (4000, 400, 40, 4), strict=True)) // 100
        return Logits(9.0 * scale * jax.nn.one_hot(ord("0") + quarters % 3, 257))


@pytest.fixture(scope="module")
def data_dir(tmp_path_factory):
    return sentence_set.prepare(tmp_path_factory.mktemp("tfds"))


@pytest.fixture(scope="module")
def data(data_dir):
    """Prompts with answers of 1 to 3 words, after the words "Kind:"."""
    fields = {"template": "Say {first}.\nKind: {label}", "classes": 3, "answers": NAMES, "length": 300}
    return PromptedChoices("made_sentences", "test", data_dir, **fields)


@pytest.fixture(scope="module")
def quarters(data_dir):
    """The same records as "12.25:1"."""
    fields = {"template": "{score:05.2f}:{label}", "classes": 3, "length": 64}
    return PromptedChoices("made_sentences", "train[:25]", data_dir, demonstrations="test", **fields)


def likelihoods(source):
    """log p of all answers, [N O], by the model's logits for the whole rows (what follows a token changes nothing)."""
    rows = [source.row(i, choice) for i in range(len(source)) for choice in range(3)]
    tokens = np.stack([np.pad(row.ids, (0, 300 - len(row.ids))) for row in rows])
    logs = np.asarray(PREDICT(PARAMS, jnp.asarray(np.resize(tokens, (30, 300)))), np.float64)
    logs -= np.log(np.exp(logs).sum(-1, keepdims=True))
    nats = [
        log[np.arange(row.answer, len(row.ids)) - 1, row.ids[row.answer :]].sum()
        for row, log in zip(rows, logs, strict=False)
    ]
    return np.array(nats).reshape(-1, 3)


def softmax(nats):
    return np.exp(nats) / np.exp(nats).sum(-1, keepdims=True)


def test_likelihoods_equal_the_models_logits_row_by_row(data):
    source = data.prompts(shots=1)
    (batch,) = eval_batches(dataclasses.replace(data, length=290).prompts(shots=1), batch_size=10)
    assert len(source) == 10 and source.longest_answer == 9
    run = jax.jit(lambda v, b: answer_likelihoods(MODEL, v, b, 9))
    nats, tokens = run(PARAMS, {key: jnp.asarray(x) for key, x in batch.items()})
    np.testing.assert_allclose(nats, likelihoods(source), rtol=1e-5)
    np.testing.assert_array_equal(tokens, np.repeat(SIZES + 1, 10, 0))


@pytest.mark.slow
def test_likelihoods_of_an_encoder_decoder_equal_the_next_tokens_of_each_answer(data):
    model = EncoderDecoder(vocab=258, width=8, depth=1, heads=2)
    fields = {"template": data.template, "classes": 3, "answers": NAMES, "length": 16, "source_length": 100}
    pairs = PromptedPairs("made_sentences", "test[:2]", data.data_dir, **fields)
    params = variables(model, *np.zeros((2, 1, 4), np.int32))
    (batch,) = eval_batches(pairs.open(), batch_size=2)
    run = jax.jit(lambda v, b: answer_likelihoods(model, v, b, 10))
    nats, tokens = run(params, {key: jnp.asarray(x) for key, x in batch.items()})
    np.testing.assert_array_equal(tokens, np.repeat(SIZES + 1, 2, 0))  # with the end token
    for i, choice in ((0, 1), (1, 2)):
        source, target = ([*text.encode(), 257] for text in (f"Say {FIRST[i]}.\nKind:", NAMES[choice]))
        given = jnp.asarray([[256, *target[:-1]]]), jnp.asarray([source])
        logs = jax.nn.log_softmax(forward(model)(params, *given)[0])
        assert nats[i, choice] == pytest.approx(float(logs[np.arange(len(target)), np.array(target)].sum()), rel=1e-5)
    right = (np.asarray(nats).argmax(1) == LABELS[:2]).mean()
    found = measure(model, NEXT, Prompted(data=pairs, shots=(0,)), params, data=pairs)
    assert found == {"accuracy_0": pytest.approx(right)}


def pmi(data, shots, premise):
    return likelihoods(data.prompts(shots, 5)) - likelihoods(data.premise(premise))


def contextual(data, shots, *blanks):
    without = [softmax(likelihoods(data.prompts(shots, 5, blank))) for blank in blanks]
    return softmax(likelihoods(data.prompts(shots, 5))) / np.mean(without, 0)


@pytest.mark.parametrize(
    ("rule", "formula"),
    [
        (Likeliest(), lambda data, shots: likelihoods(data.prompts(shots, 5))),
        (PerToken(), lambda data, shots: likelihoods(data.prompts(shots, 5)) / (SIZES + 1)),  # with the space
        (PerByte(), lambda data, shots: likelihoods(data.prompts(shots, 5)) / SIZES),
        (DomainPMI(), lambda data, shots: pmi(data, shots, "Kind:")),
        (DomainPMI("So "), lambda data, shots: pmi(data, shots, "So")),
        (Contextual(("-", "")), lambda data, shots: contextual(data, shots, "-", "")),
    ],
)
def test_rules(data, rule, formula):
    for shots in (0, 2):
        sources = data.prompts(shots, 5), *rule.references(data, shots, 5)
        answers, *others = (Likelihoods(likelihoods(source), np.repeat(SIZES + 1, 10, 0), SIZES) for source in sources)
        expected, scores = formula(data, shots), rule.scores(answers, others)
        np.testing.assert_array_equal(scores.argsort(1), expected.argsort(1))


def test_the_answer_of_the_largest_score_is_the_prediction(data):
    for rule, expected in ((DomainPMI(), pmi(data, 2, "Kind:")), (Contextual(("-",)), contextual(data, 2, "-"))):
        right = (expected.argmax(1) == LABELS)[LABELS >= 0].mean()
        found = measure(MODEL, NEXT, Prompted(data=data, shots=(2,), seeds=(5,), rule=rule), PARAMS, data=TEXT)
        assert found == {"accuracy_2": pytest.approx(right)}


def test_accuracy_of_a_model_that_has_the_answers_and_the_picture(quarters, tmp_path):
    found, files = [], []
    for i, (batch_size, buckets) in enumerate(((16, ()), (40, (16, 48)))):
        prompts = dataclasses.replace(quarters, buckets=buckets)
        evaluation = Prompted(data=prompts, shots=(0, 1, 4), seeds=(0, 1), batch_size=batch_size)
        found.append(measure(Oracle(), NEXT, evaluation, folder=tmp_path / str(i), data=TEXT))
        files.append((tmp_path / str(i) / "pictures" / "x" / "7.png").read_bytes())
    assert found == [{"accuracy_0": 1.0, "accuracy_1": 1.0, "accuracy_4": 1.0}] * 2
    assert files[0][:8] == b"\x89PNG\r\n\x1a\n" and files[0] == files[1]


def test_scores_are_means_over_the_seeds_of_the_first_batches(data):
    both = Prompted(data=data, shots=(2, 0), seeds=(0, 1), batch_size=3, max_batches=2)
    right = {
        (shots, seed): (likelihoods(data.prompts(shots, seed))[:6].argmax(1) == LABELS[:6]).mean()
        for shots, seed in ((0, 0), (2, 0), (2, 1))
    }
    expected = {"accuracy_2": (right[2, 0] + right[2, 1]) / 2, "accuracy_0": right[0, 0]}
    assert measure(MODEL, NEXT, both, PARAMS, data=TEXT) == pytest.approx(expected)


@pytest.mark.mesh
def test_eight_devices_give_the_accuracy_of_one(data):
    evaluation = Prompted(data=data, shots=(0,), rule=DomainPMI(), batch_size=8)
    right = (pmi(data, 0, "Kind:").argmax(1) == LABELS)[LABELS >= 0].mean()
    found = measure(MODEL, NEXT, evaluation, PARAMS, mesh=Mesh(data=2, fsdp=4), data=TEXT)
    assert found == {"accuracy_0": pytest.approx(right)}


def test_user_errors_before_compilation(data):
    def refuse(said, evaluation, model=MODEL, objective=NEXT):
        with pytest.raises(UserError, match=said):
            check(Experiment(model=model, objective=objective, data=TEXT, evals={"x": evaluation}, batch_size=8))

    refuse("config.evals.x.data: expected examples with choice_tokens", Prompted(data=TEXT))
    for shots in ((), (-1,), (1, 1)):
        refuse(
            "config.evals.x.shots: expected one or more numbers of at least 0, each once",
            Prompted(data=data, shots=shots),
        )
    refuse("config.evals.x.seeds", Prompted(data=data, seeds=()))
    missing = dataclasses.replace(data, demonstrations="trian")
    refuse(
        "config.evals.x.data.demonstrations: expected splits of made_sentences.*'trian'; did you mean train",
        Prompted(data=missing),
    )
    check(Experiment(model=MODEL, objective=NEXT, data=TEXT, evals={"x": Prompted(data=missing, shots=(0,))}))
    silent = dataclasses.replace(data, template="{first}\n{label}")
    refuse("config.evals.x.rule.premise: expected words", Prompted(data=silent, rule=DomainPMI()))
    refuse("config.evals.x.rule.blanks: expected at least one text", Prompted(data=data, rule=Contextual(())))
    typo = dataclasses.replace(data, template="{frist} {label}")
    refuse("config.evals.x.data.template: expected a feature .*did you mean first", Prompted(data=typo))
    masked = MaskedToken(mask_id=256, vocab=257)
    refuse("config.evals.x: expected a run that predicts the next token", Prompted(data=data), Bigrams(), masked)
    refuse(
        "config.evals.x.data: expected PromptedPairs, .* for EncoderDecoder",
        Prompted(data=data),
        EncoderDecoder(vocab=258, width=8, depth=1, heads=1),
    )
    pairs = PromptedPairs("made_sentences", "test", data.data_dir, template=data.template, classes=3)
    refuse(
        "config.evals.x.data: expected PromptedChoices, .* for Decoder",
        Prompted(data=pairs),
        Decoder(vocab=258, width=8, depth=1, heads=1),
    )
    short = gpt(vocab=256, width=8, depth=1, heads=1, max_length=64)
    refuse("config.model.positions.max_length: expected at least the input's length of 300", Prompted(data=data), short)
    with pytest.raises(
        UserError, match="config.evals.x.data.demonstrations: expected a split with 99 labelled records"
    ):
        measure(MODEL, NEXT, Prompted(data=data, shots=(99,)), PARAMS, data=TEXT)
