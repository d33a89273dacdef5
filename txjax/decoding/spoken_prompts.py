"""Prompts of a model that reads audio: recordings."""

import dataclasses
from collections.abc import Sequence
from pathlib import Path
from typing import ClassVar

import numpy as np

from txjax.data import Utterances
from txjax.data.audio.audio_files import UnusableAudio
from txjax.data.audio.read_recording import read_recording
from txjax.decoding.generator import Inputs
from txjax.decoding.prompts import Ids, Prompts
from txjax.errors import UserError, require


@dataclasses.dataclass(frozen=True, kw_only=True)
class SpokenPrompts(Prompts):
    """Prompts of a model of speech: the paths of WAV and FLAC files. The text begins with the tokens that begin
    those of the training data.

    Attributes:
      utterances: the training data: their rate, their longest recording, what is usable.
    """

    flag: ClassVar[str] = "--audio"

    utterances: Utterances

    @property
    def opening(self) -> tuple[int, ...]:
        """The tokens that begin a text."""
        return self.utterances.opening()

    @classmethod
    def of(cls, data: Utterances, field: str) -> "SpokenPrompts":
        """The prompts of a model that is trained on these data, which the field names."""
        roles = data.tokenizer.roles()
        if not data.opening():
            expected = "recordings whose tokenizer has a token that ends a text, for a decoder"
            raise UserError(field, expected, type(data.tokenizer).__name__)
        return cls(data.tokenizer, roles.eos, utterances=data)

    def inputs(self, prompts: Sequence[str], field: str) -> Inputs:
        opening = np.tile(np.array(self.opening, np.int32), (len(prompts), 1))
        return {"tokens": opening, **read_recordings(prompts, self.utterances, field)}

    def text_before(self, prompt: str) -> str:
        return prompt + "\n"

    def text(self, prompt: str, ids: Ids) -> str:
        return self.tokenizer.decode(ids)


def read_recordings(paths: Sequence[str], utterances: Utterances, field: str) -> Inputs:
    """The waveforms of WAV and FLAC files, as `audio` [B T] and `audio_length` [B] of a batch.

    Args:
      utterances: the training data: their rate, their longest recording, what is usable.
      field: the field or flag that has the paths, for messages.

    Raises:
      UserError: a file can't be read, or is too long.
    """
    for module in ("soundfile", "soxr"):
        require(module, module, field, extra="audio")
    rows = [_read(path, utterances, field) for path in paths]
    longest = max(map(len, rows))
    return {
        "audio": np.stack([np.pad(row, (0, longest - len(row))) for row in rows]),
        "audio_length": np.array([len(row) for row in rows], np.int32),
    }


def _read(path: str, utterances: Utterances, field: str) -> np.ndarray:
    """The samples of a file."""
    rate = utterances.rate
    most = utterances.samples
    if not Path(path).is_file():
        raise UserError(field, "a WAV or FLAC file", path)
    try:
        samples = read_recording(Path(path), rate, utterances.checks)
    except UnusableAudio as error:
        raise UserError(field, "a usable WAV or FLAC file", f"{path}: {error}") from None
    if len(samples) > most:
        expected = f"at most {most} samples at {rate} Hz, data.samples"
        raise UserError(field, expected, f"{len(samples)} in {path}")
    return samples
