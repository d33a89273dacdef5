"""When the frames of a model of audio are, in seconds."""

import dataclasses
from typing import Any

from txjax.errors import UserError

MANY = 10**9  # frames: a multiple of any usual stride


@dataclasses.dataclass(frozen=True)
class FrameTimes:
    """How far apart the frames of a model of audio are. Frame n begins n times as late.

    Attributes:
      features: seconds from one frame of the features to the next.
      tokens: seconds from one token of the encoder to the next; None if its tokens are no steps in time.
    """

    features: float
    tokens: float | None

    @classmethod
    def of(cls, model: Any, rate: int) -> "FrameTimes":
        """The times of a model, or of its `encoder`, by its front end's hop and its subsampling.

        Args:
          rate: samples a second of the audio.

        Raises:
          UserError: it has no front end with a hop.
        """
        encoder, front_end = encoder_and_front_end(model)
        hop = getattr(front_end, "hop", None)
        if hop is None:
            expected = "a front end with a hop, the samples from one frame to the next, such as LogMel()"
            raise UserError("config.model.front_end", expected, type(front_end).__name__)
        length = getattr(encoder, "output_length", None)
        tokens = None if length is None else hop * MANY / (length(2 * MANY) - length(MANY)) / rate
        return cls(hop / rate, tokens)


def encoder_and_front_end(model: Any) -> tuple[Any, Any]:
    """The part of a model that reads audio, itself or its `encoder`, and its front end; None for what it hasn't."""
    encoder = model if hasattr(model, "front_end") else getattr(model, "encoder", None)
    return encoder, getattr(encoder, "front_end", None)
