"""CTC and attention trained together: the loss is the weighted sum of both, and the encoder is called once."""

import math
from typing import Any

import flax.linen as nn
import jax
import numpy as np
import pytest

from txjax.models.audio.audio_encoder import AudioEncoder
from txjax.models.audio.branchformer.card import branchformer_attention
from txjax.models.audio.conformer import Conformer
from txjax.models.audio.speech_transformer import SpeechTransformer
from txjax.nn import Classes, MeanTokens, TokenClasses
from txjax.nn.audio.sequence_subsampling import GatedSubsampling
from txjax.nn.audio.spec_augment import SpecAugment
from txjax.nn.audio.subsampling import ImageSubsampling
from txjax.objectives import CTC, JointCTC, NextToken
from txjax.objectives.losses import CrossEntropy
from txjax.parametrization import MuP
from txjax.types import UserError

from helpers.arrays import numbers, on_jax, shapes, variables

pytestmark = pytest.mark.claim(
    "Models and objectives",
    "joint CTC and attention is the weighted sum of both losses, of one call of the encoder; a model without a head of "
    "CTC is a user error",
)

V, KEY = 5, jax.random.key(0)
SIZES: dict[str, Any] = {"width": 8, "depth": 1, "heads": 2}
BATCH = on_jax(
    {
        "id": np.arange(3, dtype=np.int32),
        "features": numbers(3, 24, 8),
        "features_length": np.array([24, 17, 9], np.int32),
        "transcript": np.array([[0, 1, 1], [2, 0, 0], [3, 3, 3]], np.int32),
        "transcript_length": np.array([3, 1, 3], np.int32),  # the last one needs 5 frames, and has 3
        "tokens": np.array([[4, 0, 1, 1], [4, 2, 0, 0], [4, 3, 3, 3]], np.int32),
        "targets": np.array([[0, 1, 1, 4], [2, 4, 0, 0], [3, 3, 3, 4]], np.int32),
        "weights": np.array([[1, 1, 1, 1], [1, 1, 0, 0], [1, 1, 1, 1]], np.float32),
    }
)


def model(encoder: AudioEncoder | None = None, **fields: Any) -> SpeechTransformer:
    encoder = encoder or AudioEncoder(**SIZES | {"width": 6}, subsampling=GatedSubsampling(channels=4))
    return SpeechTransformer(vocab=V, encoder=encoder, **SIZES | {"ctc_head": TokenClasses(V)} | fields)


def draw(ours: SpeechTransformer) -> Any:
    return variables(ours, BATCH["tokens"], BATCH["features"], BATCH["features_length"])


def test_terms_are_those_of_both_objectives_of_one_call_of_the_encoder() -> None:
    ours = model()
    params = draw(ours)
    joint = JointCTC(text=NextToken(loss=CrossEntropy(z_loss=1e-2)), ctc_weight=0.2)
    calls = []

    def record(call: Any, args: Any, options: Any, context: Any) -> Any:
        calls.append((type(context.module), context.method_name))
        return call(*args, **options)

    @jax.jit
    def terms(params: Any) -> Any:
        with nn.intercept_methods(record):
            outcome = joint(ours, params, BATCH, KEY, True)
        arguments = (BATCH[name] for name in ("tokens", "features", "features_length"))
        frames, _ = ours.apply(params, *arguments, method="frames_and_text")
        ctc, share = CTC().sums(frames, ours.encoder.output_length(BATCH["features_length"]), BATCH)
        text = joint.text(ours, params, BATCH, KEY, True)
        return outcome.losses, outcome.metrics, ctc, text.losses, share | text.metrics

    losses, metrics, ctc, text, wanted_metrics = terms(params)
    assert calls.count((AudioEncoder, "__call__")) == 1
    assert set(losses) == {"ctc", "next_token", "z_loss"} and set(metrics) == {"accuracy", "too_long"}
    for name, term in (ctc | text).items():
        np.testing.assert_allclose(losses[name].value, (0.2 if name == "ctc" else 0.8) * term.value, rtol=1e-5)
    for name, term in wanted_metrics.items():
        np.testing.assert_allclose(metrics[name].value, term.value, rtol=1e-5)
    np.testing.assert_allclose(metrics["too_long"].value, 1 / 3, rtol=1e-6)


def test_an_encoder_of_convolutions_has_its_statistics_from_the_same_call() -> None:
    ours = model(Conformer(**SIZES, subsampling=ImageSubsampling(channels=4)))
    params = draw(ours)
    outcome = jax.eval_shape(lambda params: JointCTC()(ours, params, BATCH, KEY, True), params)
    assert jax.tree.structure(outcome.model_state["batch_stats"]) == jax.tree.structure(params["batch_stats"])


def test_masks_of_features_are_for_both() -> None:
    ours = model()
    params = draw(ours)
    plain, masked = JointCTC(), JointCTC(augment=SpecAugment())
    calls = (plain, True), (masked, False), (masked, True)
    losses = jax.jit(lambda p: [objective(ours, p, BATCH, KEY, train).losses for objective, train in calls])(params)
    for name in ("ctc", "next_token"):
        trained, masked_evaluated, masked_trained = (float(terms[name].total) for terms in losses)
        assert trained == pytest.approx(masked_evaluated) and abs(trained - masked_trained) > 1e-3


@pytest.mark.parametrize(
    ("objective", "fields", "message"),
    [
        (
            JointCTC(),
            {"ctc_head": None},
            r"config\.model\.ctc_head: expected TokenClasses\(\.\.\.\), for JointCTC, got None",
        ),
        (JointCTC(), {"ctc_head": Classes(V, MeanTokens())}, r"an array \[B F classes\], for CTC"),
        (JointCTC(ctc=CTC(blank=7)), {}, r"config\.objective\.ctc\.blank: expected a class from -5 to 4, got 7"),
    ],
)
def test_models_that_do_not_fit(objective: JointCTC, fields: Any, message: str) -> None:
    ours = model(**fields)

    def call() -> Any:
        params = objective.init(ours, {"params": jax.random.key(0)}, BATCH)
        return objective(ours, params, BATCH, KEY, False)

    with pytest.raises(UserError, match=message):
        jax.eval_shape(call)


def test_an_encoder_alone_has_no_decoder() -> None:
    message = r"config\.model: expected a model with ctc_head, frames_and_text, for JointCTC, got 'Conformer'"
    alone = Conformer(**SIZES, subsampling=ImageSubsampling(channels=4), head=TokenClasses(V))
    batch = {name: x for name, x in BATCH.items() if name != "tokens"}
    with pytest.raises(UserError, match=message):
        JointCTC().check_model(alone, batch)


def test_the_head_scales_by_the_encoder() -> None:
    ours = model(parametrization=MuP(base_width=4, base_head_size=4))
    assert ours.scalings()["ctc_head"] == ours.encoder.scaling() is None
    assert "ctc_head" not in model(ctc_head=None).scalings()


@pytest.mark.parametrize(
    ("size", "classes", "count"), [("aishell", 4233, 45_426_194), ("librispeech", 5000, 116_884_240)]
)
def test_counts_of_espnets_hybrids(size: str, classes: int, count: int) -> None:
    hybrid = branchformer_attention(size, ctc_head=TokenClasses(classes))
    sizes = shapes(hybrid, np.zeros((1, 1), np.int32), np.zeros((1, 16, 80), np.float32))
    assert sum(math.prod(leaf.shape) for leaf in jax.tree.leaves(sizes["params"])) == count
