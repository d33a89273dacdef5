"""The loss of CTC: equal to the sum over all paths and to PyTorch's; what is left out, and what is never read."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from txjax.nn.audio.spec_augment import AxisMasks, SpecAugment
from txjax.objectives import CTC, ctc_loss
from txjax.types import UserError

from helpers.arrays import call, numbers, on_jax
from helpers.frame_texts import Frames, FrameTexts, enumerate_texts, nest, pad_texts

pytestmark = pytest.mark.claim(
    "Models and objectives",
    "the loss of CTC is that of all paths of a text and PyTorch's, with its gradient; texts that don't fit are left "
    "out and counted; neither padding nor symbols of probability 0 are read",
)

F, V = 5, 4
TEXTS = ((), (1,), (1, 1), (2, 1, 2), (1, 1, 1), (1, 2, 1, 2, 1))  # the last ones need all frames
FRAMES = np.array([5, 3, 4, 5, 5, 5], np.int32)
LOGITS = 2 * numbers(len(TEXTS), F, V)
SYMBOLS, LENGTHS = pad_texts(TEXTS, 6)
PARAMS = {"params": {"scale": jnp.float32(1)}}


def nats(blank: int, logits: np.ndarray = LOGITS) -> list[float]:
    """The loss of each example by enumeration."""
    classes = [tuple((symbol + blank) % V for symbol in text) for text in TEXTS]
    rows = zip(logits, FRAMES, classes, strict=True)
    return [-enumerate_texts(row[:count], blank)[text] for row, count, text in rows]


@pytest.mark.parametrize("blank", [0, 2, -1])
def test_the_loss_is_that_of_all_paths(blank):
    symbols = (SYMBOLS + blank) % V  # other classes where the blank is another one; no padding is 0 then
    losses = call(jax.jit(ctc_loss, static_argnums=4), LOGITS, FRAMES, symbols, LENGTHS, blank)
    np.testing.assert_allclose(losses, nats(blank % V), rtol=1e-5)


def batch(**changes: Any) -> dict[str, jax.Array]:
    ids, weights = np.arange(len(TEXTS), dtype=np.int32), np.ones(len(TEXTS), np.float32)
    arrays = {"id": ids, "features": LOGITS, "features_length": FRAMES, "weights": weights}
    return on_jax(arrays | {"transcript": SYMBOLS, "transcript_length": LENGTHS} | changes)


def outcome(objective: CTC, **changes: Any) -> Any:
    return jax.jit(lambda arrays: objective(Frames(), PARAMS, arrays, jax.random.key(0), False))(batch(**changes))


@pytest.mark.parametrize("mean", ["label", "example", "sum"])
def test_means(mean):
    losses, counts = np.array(nats(0)), np.maximum(LENGTHS, 1)
    weights = np.array([1, 1, 0.5, 1, 0, 1], np.float32)
    (loss,) = outcome(CTC(mean=mean, blank=0), weights=weights).losses.values()
    values, shares = losses / counts, weights
    if mean == "label":
        shares = weights * counts
    elif mean == "sum":
        values = losses
    np.testing.assert_allclose(loss.value, (values * shares).sum() / shares.sum(), rtol=1e-5)
    np.testing.assert_allclose(loss.count, shares.sum())


def test_weights_of_tokens_give_the_weight_of_their_example():
    by_token = np.ones((len(TEXTS), 7), np.float32)
    by_token[1:, 2:], by_token[0] = 0, 0
    weights = np.array([0, 1, 1, 1, 1, 1], np.float32)
    ours, plain = (outcome(CTC(blank=0), weights=x).losses["ctc"] for x in (by_token, weights))
    assert (float(ours.total), float(ours.count)) == (float(plain.total), float(plain.count))


def test_texts_that_do_not_fit_are_left_out_and_counted():
    """By lengths: a frame more is needed between two equal symbols."""
    frames = np.array([5, 0, 2, 2, 4, 5], np.int32)  # needed are 0, 1, 3, 3, 5, 5

    def loss(logits: jax.Array) -> tuple[jax.Array, Any]:
        result = outcome(CTC(mean="sum", blank=0), features=logits, features_length=frames)
        return result.losses["ctc"].value, result

    gradient, result = jax.grad(loss, has_aux=True)(on_jax(LOGITS))
    all_losses = nats(0)
    np.testing.assert_allclose(result.losses["ctc"].value, (all_losses[0] + all_losses[5]) / 2, rtol=1e-5)
    assert (float(result.metrics["too_long"].total), float(result.metrics["too_long"].count)) == (4, 6)
    assert np.abs(gradient).max((1, 2)).astype(bool).tolist() == [True, False, False, False, False, True]
    nothing = outcome(CTC(blank=0), features_length=np.zeros(6, np.int32))
    assert float(nothing.losses["ctc"].value) == 0 and float(nothing.losses["ctc"].count) == 1  # the empty text
    assert float(nothing.metrics["too_long"].value) == np.float32(5 / 6)


def test_what_is_padding_or_impossible_is_never_read():
    """NaN behind the end and in examples without weight, padding of symbols, and classes that no text has."""
    logits = np.concatenate([LOGITS, np.full((6, F, 2), -np.inf, np.float32)], -1)
    logits[np.arange(F)[None] >= FRAMES[:, None]] = np.nan
    logits[5] = np.nan
    symbols = np.where(np.arange(6)[None] < LENGTHS[:, None], SYMBOLS, -7)
    weights = np.array([1, 1, 1, 1, 1, 0], np.float32)

    def loss(features: jax.Array, symbols: np.ndarray) -> jax.Array:
        changes = {"features": features, "transcript": symbols, "weights": weights}
        return outcome(CTC(mean="sum", blank=0), **changes).losses["ctc"].value

    value, gradient = jax.value_and_grad(loss)(on_jax(logits), symbols)
    clean, wanted = jax.value_and_grad(loss)(on_jax(LOGITS), SYMBOLS)
    np.testing.assert_allclose(value, clean, rtol=1e-6)
    np.testing.assert_allclose(value, np.mean(nats(0)[:5]), rtol=1e-5)
    np.testing.assert_allclose(gradient[..., :V], wanted, atol=1e-6)
    assert not np.any(gradient[..., V:])


def test_a_nan_of_a_frame_that_counts_shows():
    logits = LOGITS.copy()
    logits[0, 0, 1] = np.nan
    assert np.isnan(outcome(CTC(blank=0), features=logits).losses["ctc"].value)


def test_the_softmax_of_bfloat16_is_in_float32():
    rounded = jnp.asarray(LOGITS, jnp.bfloat16)
    losses = call(ctc_loss, rounded, FRAMES, SYMBOLS, LENGTHS, 0)
    assert losses.dtype == jnp.float32
    np.testing.assert_allclose(losses, nats(0, np.asarray(rounded.astype(jnp.float32))), rtol=1e-5)


def test_features_are_masked_in_training_by_example():
    """The masks of an example are the same wherever it is in the batch, and others in another step."""
    objective = CTC(mean="sum", blank=0, augment=SpecAugment(AxisMasks(1, 3), AxisMasks(1, 3)))

    @jax.jit
    def loss(arrays: dict[str, jax.Array], number: int) -> jax.Array:
        return objective(Frames(), PARAMS, arrays, jax.random.key(number), True).losses["ctc"].total

    def alone(row: int, number: int = 0) -> float:
        weights = np.zeros(len(TEXTS), np.float32)
        weights[row] = 1
        return float(loss(batch(weights=weights), number))

    order = np.array([3, 1, 0, 5, 2, 4])
    shuffled = {key: x[order] for key, x in batch(weights=np.eye(6, dtype=np.float32)[3]).items()}
    masked, plain = alone(3), nats(0)[3]
    assert float(loss(shuffled, 0)) == pytest.approx(masked, rel=1e-6)
    assert len({round(x, 3) for x in (masked, alone(3, 1), plain)}) == 3
    assert float(outcome(objective).losses["ctc"].total) == pytest.approx(sum(nats(0)), rel=1e-5)


def data() -> FrameTexts:
    return FrameTexts(features=nest(LOGITS[:, :, :3]), frames=(5,) * 6, texts=("a",) * 6)  # the alphabet is " ab"


class Headed:
    """A model of which only the number of classes is of interest."""

    def __init__(self, classes: int):
        self.head = self
        self.classes = classes


@pytest.mark.parametrize(
    ("blank", "classes", "message"),
    [
        (
            -1,
            2,
            r"config\.model\.head\.classes: expected at least 4, the 3 symbols of config\.data .*, got 2",
        ),
        (
            -1,
            3,
            r"config\.objective\.blank: expected the class of the blank, .*got '2, a token of text'",
        ),
        (0, 4, r"config\.objective\.blank: .*got '0, a token of text'; .*or -1, with 4 classes in config\.model\.head"),
    ],
)
def test_a_blank_that_is_a_letter_is_refused(blank, classes, message):
    with pytest.raises(UserError, match=message):
        CTC(blank=blank).check(Headed(classes), data())
    CTC(blank=-1).check(Headed(4), data())


@pytest.mark.parametrize("blank", [4, -5])
def test_a_blank_outside_of_the_classes_is_refused(blank):
    with pytest.raises(UserError, match=rf"config\.objective\.blank: expected a class from -4 to 3, got {blank}"):
        CTC(blank=blank).init(Frames(), {"params": jax.random.key(0)}, batch())


@pytest.mark.slow
@pytest.mark.parametrize(
    ("shape", "precise"), [((6, 16, 5, 12), False), ((3, 200, 40, 30), True), ((2, 1500, 300, 32), True)]
)
def test_loss_and_gradient_are_those_of_pytorch(shape, precise):
    """Long texts in float64, since both lose digits in float32."""
    torch = pytest.importorskip("torch", reason="txjax[parity]")
    size, frames, symbols, classes = shape
    rng = np.random.default_rng(0)
    logits = rng.normal(size=(size, frames, classes)).astype(np.float64 if precise else np.float32)
    texts = rng.integers(1, classes, (size, symbols)).astype(np.int32)
    texts[0, :4] = 2  # equal neighbours
    counts, lengths = rng.integers(frames - 8, frames + 1, size), rng.integers(1, symbols + 1, size)
    lengths[1] = 0
    theirs = torch.tensor(logits, requires_grad=True)
    ends = torch.tensor(counts), torch.tensor(lengths)
    losses = torch.nn.functional.ctc_loss(
        theirs.log_softmax(-1).transpose(0, 1), torch.tensor(texts), *ends, reduction="none"
    )
    losses.sum().backward()
    with jax.enable_x64(precise):
        arrays = jnp.asarray(counts, jnp.int32), jnp.asarray(texts), jnp.asarray(lengths, jnp.int32)

        def loss(logits: jax.Array) -> tuple[jax.Array, jax.Array]:
            losses = ctc_loss(logits, *arrays, 0)
            return losses.sum(), losses

        gradient, ours = jax.jit(jax.grad(loss, has_aux=True))(jnp.asarray(logits))
    np.testing.assert_allclose(ours, losses.detach().numpy(), rtol=1e-5)
    np.testing.assert_allclose(gradient, theirs.grad.numpy(), atol=1e-5)
