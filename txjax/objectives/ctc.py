"""Connectionist temporal classification (CTC): texts from frames, without an alignment of the two."""

import dataclasses
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from txjax.data import Dataset
from txjax.data.loading.limits import find_size
from txjax.errors import UserError
from txjax.nn.audio.ctc_trellis import CTCTrellis, text_fits
from txjax.nn.audio.spec_augment import SpecAugment
from txjax.objectives.base import Objective, apply_model
from txjax.objectives.data_checks import check_special_tokens
from txjax.objectives.losses import Sums
from txjax.objectives.masked_features import mask_features
from txjax.types import Batch, Mean, ObjectiveOutput, PyTree, config_field

FrameLogits = tuple[Float[Array, "B F V"], Int[Array, "B"]]


def ctc_loss(
    logits: Float[Array, "B F V"],
    frames: Int[Array, "B"],
    symbols: Int[Array, "B U"],
    lengths: Int[Array, "B"],
    blank: int = -1,
) -> Float[Array, "B"]:
    """-log p(text) in nats of each example, over all paths of the text (Graves et al. 2006, equations 3 to 8).

    It is of the first `frames` frames, whatever the others are. Logits may be -inf for classes that the text doesn't
    have. A text without symbols has the probability that all frames are blank; in no frames that is 1. One that
    doesn't fit (`text_fits`) has no path, and a loss of at least 1e30.

    Computed in float32, or float64 for such logits.

    Args:
      frames: the number of frames of each example, at most F.
      symbols: the classes of a text; any behind its end.
      lengths: the number of symbols.
      blank: the class of the blank; a negative one counts from the last.
    """
    trellis = CTCTrellis.of(logits, frames, symbols, lengths, blank)

    def add_paths(log_probs: jax.Array, sources: jax.Array) -> tuple[jax.Array, None]:
        return jax.nn.logsumexp(sources, axis=0) + log_probs, None

    scores, _ = trellis.scan(add_paths)
    return -jnp.logaddexp(*trellis.ends(scores))


@dataclasses.dataclass
class CTC(Objective):
    """The loss of CTC (Graves et al. 2006) in nats, of a model that returns logits [B F classes] of frames.

    The texts are `transcript`. One that has more symbols than the model has frames (a frame more is needed between two
    equal symbols) has no path: it is left out of the loss, decided by lengths alone, and the metric `too_long` is the
    share of such examples. A text without symbols is as much as one of one symbol in a mean by symbol.

    Attributes:
      mean: "label": nats a symbol, over all symbols of a batch; "example": the mean over examples of their nats a
        symbol (PyTorch's "mean"); "sum": nats an example (PyTorch's "sum", over the number of examples).
      blank: the class of the blank; a negative one counts from the last. With -1 a head has one class more than the
        data has symbols.
      augment: masks of the features in training. If None, there are none.
    """

    mean: str = config_field("label", choices=("label", "example", "sum"))
    blank: int = -1
    augment: SpecAugment | None = None

    members: ClassVar[tuple[str, ...]] = ("output_length",)
    models: ClassVar[str] = "Conformer"
    required_keys: ClassVar[tuple[str, ...]] = (
        "id",
        "features_length | audio_length",
        "transcript",
        "transcript_length",
        "weights",
    )

    def check(self, model: Any, data: Dataset) -> None:
        check_blank("config.objective.blank", self.blank, model, data)
        super().check(model, data)

    def check_output(self, model: Any, output: Any, batch: Batch) -> None:
        if getattr(output, "ndim", None) != 3:
            expected = "a model that returns an array [B F classes], for CTC"
            raise UserError("config.model", expected, type(model).__name__, hint="its head must be TokenClasses(...)")
        classes = output.shape[2]
        if not -classes <= self.blank < classes:
            raise UserError("config.objective.blank", f"a class from {-classes} to {classes - 1}", self.blank)

    def __call__(self, model: Any, variables: PyTree, batch: Batch, key: jax.Array, train: bool) -> ObjectiveOutput:
        inputs = mask_features(self.augment, self.inputs(model, batch), batch, key, train)
        logits, aux = apply_model(model, variables, inputs, batch, key, train)
        self.check_output(model, logits, batch)
        return aux.outcome(*self.sums(logits, model.output_length(inputs["features_length"]), batch))

    def frame_logits(self, model: Any, variables: PyTree, batch: Batch) -> FrameLogits:
        """The logits of frames for a search, and the number of frames of each example."""
        inputs = self.inputs(model, batch)
        logits = model.apply(variables, **inputs, train=False)
        return logits, model.output_length(inputs["features_length"])

    def sums(self, logits: Float[Array, "B F V"], frames: Int[Array, "B"], batch: Batch) -> Sums:
        """The loss `ctc` and the metric `too_long` of a batch.

        Logits of frames behind an example's, and all those of an example that is left out or has no weight, have no
        influence and no gradient, NaN included.

        Args:
          frames: the number of frames of each example.
        """
        symbols = batch["transcript"]
        lengths = batch["transcript_length"]
        weights = example_weights(batch)
        fits = text_fits(frames, symbols, lengths)
        counts = fits & (weights > 0)
        nats = ctc_loss(logits, jnp.where(counts, frames, 0), symbols, jnp.where(counts, lengths, 0), self.blank)
        labels = jnp.maximum(lengths, 1).astype(nats.dtype)
        values = nats if self.mean == "sum" else nats / labels
        shares = fits * labels if self.mean == "label" else fits
        return {"ctc": Mean.of(values, weights * shares)}, {"too_long": Mean.of(~fits, weights)}


def example_weights(batch: Batch) -> Float[Array, "B"]:
    """The weight of each example; where each of its tokens has a weight, the largest."""
    return batch["weights"].reshape(len(batch["id"]), -1).max(1)


def check_blank(field: str, blank: int, model: Any, data: Dataset, classes: str = "head.classes") -> None:
    """Raises UserError if the model has no class for a symbol of the data, or the class of the blank is in a text.

    Args:
      field: that has the blank.
      classes: the field of the model, or of a part of it, that is the number of classes.
    """
    vocab = data.vocab()
    head = find_size(model, classes)
    if vocab is None:
        return
    if head is not None and head[1] < vocab:
        expected = f"at least {vocab + 1}, the {vocab} symbols of config.data and the blank"
        raise UserError(f"config.model.{head[0]}", expected, head[1])
    chosen = blank if blank >= 0 or head is None else head[1] + blank
    if 0 <= chosen < vocab:
        try:
            check_special_tokens(field, [chosen], data, "the class of the blank")
        except UserError as error:
            place = classes if head is None else head[0]
            raise error.with_hint(f"or -1, with {vocab + 1} classes in config.model.{place}") from None
