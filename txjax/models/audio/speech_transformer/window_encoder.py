"""An encoder of windows of audio, which are all of one length."""

from typing import Any

from jaxtyping import Array, Float, Int

from txjax.errors import UserError
from txjax.models.audio.audio_encoder import AudioEncoder
from txjax.types import config_field


class WindowEncoder(AudioEncoder, kw_only=True):
    """Whisper's encoder (Radford et al. 2023, 2.2): the silence after an utterance is a part of its input.

    All frames are read, and all tokens are attended to, so that an utterance is no longer than a window.

    Parameters: those of `AudioEncoder`.

    Attributes:
      frames: of a window: the front end's, 3,000 for 30 seconds.
    """

    frames: int = config_field(3000, at_least=1)

    def __call__(
        self, features: Float[Array, "B T C"], features_length: Int[Array, "B"] | None = None, train: bool = False
    ) -> Any:
        """The head's output, for any `features_length`. Raises UserError for another number of frames."""
        if features.shape[1] != self.frames:
            hint = "the front end `whisper()` cuts and pads to 30 seconds"
            expected = f"features of {self.frames} frames, config.model.encoder.frames"
            raise UserError("config.data", expected, features.shape[1], hint=hint)
        return super().__call__(features, train=train)
