"""Speech recognition by an attention decoder whose encoder is trained with CTC, too."""

import dataclasses
from typing import Any, ClassVar

import jax
import jax.numpy as jnp

from txjax.data import Dataset
from txjax.errors import UserError
from txjax.nn.audio.spec_augment import SpecAugment
from txjax.objectives.base import Objective, apply_model, source_inputs
from txjax.objectives.ctc import CTC, FrameLogits, check_blank
from txjax.objectives.losses import Sums
from txjax.objectives.masked_features import check_augment, mask_features
from txjax.objectives.next_token import NextToken
from txjax.types import Batch, Mean, ObjectiveOutput, PyTree, config_field

METHOD = "frames_and_text"  # of the model


@dataclasses.dataclass
class JointCTC(Objective):
    """ctc_weight * CTC + (1 - ctc_weight) * next token (Kim et al. 2017, equation 11; Watanabe et al. 2017, section
    III.B), of a decoder of speech with a `ctc_head`. The encoder is called once.

    Both read the same audio: `transcript` is the text of CTC, and `targets` those of the decoder.

    Attributes:
      ctc: the objective of the encoder's frames.
      text: the objective of the decoder.
      ctc_weight: of the loss of CTC. The logged terms have their factors.
      augment: masks of the features in training, for both. If None, there are none.
    """

    ctc: CTC = dataclasses.field(default_factory=CTC)
    text: NextToken = dataclasses.field(default_factory=NextToken)
    ctc_weight: float = config_field(0.3, above=0, below=1)
    augment: SpecAugment | None = None

    members: ClassVar[tuple[str, ...]] = ("ctc_head", METHOD)
    models: ClassVar[str] = "SpeechTransformer"

    @property
    def required_keys(self) -> tuple[str, ...]:
        return (*dict.fromkeys((*self.ctc.required_keys, *self.text.required_keys)),)

    @property
    def blank(self) -> int:
        """The class of the blank, for searches."""
        return self.ctc.blank

    def check(self, model: Any, data: Dataset) -> None:
        check_blank("config.objective.ctc.blank", self.blank, model, data, "ctc_head.classes")
        super().check(model, data)
        check_augment(self.augment, data)
        for name in ("ctc", "text"):
            if (augment := getattr(self, name).augment) is not None:
                hint = "objective.augment masks the features of both"
                raise UserError(f"objective.{name}.augment", "None", type(augment).__name__, hint=hint)

    def check_model(self, model: Any, batch: Batch) -> None:
        super().check_model(model, batch)
        if model.ctc_head is None:
            hint = "its classes are the symbols and the blank"
            raise UserError("config.model.ctc_head", "TokenClasses(...), for JointCTC", None, hint=hint)

    def check_output(self, model: Any, output: Any, batch: Batch) -> None:
        self.text.check_output(model, output, batch)

    def __call__(self, model: Any, variables: PyTree, batch: Batch, key: jax.Array, train: bool) -> ObjectiveOutput:
        inputs = mask_features(self.augment, self.inputs(model, batch), batch, key, train)
        (frames, text), aux = apply_model(model, variables, inputs, batch, key, train, METHOD)
        self._check_frames(model, frames, batch)
        self.text.check_output(model, text, batch)
        lengths = model.encoder.output_length(inputs["features_length"])
        ctc, ctc_metrics = scale_losses(self.ctc_weight, self.ctc.sums(frames, lengths, batch))
        next_token, metrics = scale_losses(1 - self.ctc_weight, self.text.sums(text, batch, train))
        return aux.outcome(ctc | next_token, ctc_metrics | metrics)

    def _check_frames(self, model: Any, frames: Any, batch: Batch) -> None:
        try:
            self.ctc.check_output(model, frames, batch)
        except UserError as error:
            raise error.with_path("config.objective.ctc", "config.objective") from None

    def frame_logits(self, model: Any, variables: PyTree, batch: Batch) -> FrameLogits:
        """The logits of frames for a search of CTC, and the number of frames of each example."""
        inputs = source_inputs(model, batch)
        any_text = jnp.zeros((len(batch["id"]), 1), jnp.int32)  # of which nothing is computed in jit
        logits, _ = model.apply(variables, any_text, **inputs, train=False, method=METHOD)
        return logits, model.encoder.output_length(inputs["features_length"])


def scale_losses(factor: float, sums: Sums) -> Sums:
    """The losses times a factor, and the metrics."""
    losses, metrics = sums
    return {name: Mean(factor * mean.total, mean.count) for name, mean in losses.items()}, metrics
