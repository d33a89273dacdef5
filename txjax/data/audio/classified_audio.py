"""The base of recordings with classes."""

import dataclasses

from txjax.data.audio.audio_data import AudioData
from txjax.data.audio.waveform_mixing import WaveformMixup
from txjax.errors import UserError
from txjax.types import config_field


@dataclasses.dataclass
class ClassifiedAudio(AudioData):
    """Recordings that have one class or several.

    Attributes:
      classes: the number C of classes. If None, the set's.
      mix: mixes a second example into the recording, for training only. If None, recordings are not mixed.
      too_long: as in `AudioData`, or "cut" (a recording loses its last samples, with a count in the log).
    """

    classes: int | None = config_field(None, at_least=1)
    mix: WaveformMixup | None = None
    too_long: str = config_field("refuse", choices=("cut", "drop", "refuse"))

    def class_names(self) -> tuple[str, ...]:
        """The names of its classes, in the order of their numbers. Reads at most metadata."""
        raise NotImplementedError

    def check(self) -> None:
        super().check()
        if self.classes not in (None, classes := len(self.class_names())):
            raise UserError("data.classes", f"the {classes} classes of {self.name}", self.classes)

    def fill_from_set(self) -> None:
        if self.classes is None:
            self.classes = len(self.class_names())
