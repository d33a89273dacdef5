"""`txjax_audio`: the audio files of a folder, with the fields of its JSON Lines."""

import dataclasses
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow_datasets as tfds

from txjax.data.audio.audio_folders import LABEL, AudioFolder, Row, list_audio
from txjax.data.tfds.audio_feature import Audio
from txjax.types import UserError, require

FILE_NAME = "{}/filename"  # the feature with the path of the file of an audio feature, by TFDS's custom


@dataclasses.dataclass(eq=False)
class AudioFolderConfig(tfds.core.BuilderConfig):
    """The files of one state of a folder.

    Attributes:
      folder: its path.
      audio: its rows.
    """

    folder: Path = Path()
    audio: AudioFolder = dataclasses.field(default_factory=lambda: AudioFolder({}, "audio", ""))


class Builder(tfds.core.GeneratorBasedBuilder):
    """Records with the file of the audio field, its path, and the other fields: texts, numbers, and a class `label`.

    A folder that changes is another configuration of the set, which is prepared anew.
    """

    VERSION = tfds.core.Version("1.0.0")

    @classmethod
    def config_of(cls, data_dir: str | None) -> AudioFolderConfig:
        """The configuration of the folder `data_dir`. Raises UserError if its JSONL files are no list of its files."""
        if data_dir is None:
            hint = "--config.data.data_dir=FOLDER"
            raise UserError("data.data_dir", "the folder of audio files, with a JSONL file", None, hint=hint)
        folder = Path(data_dir).expanduser().absolute()
        audio = list_audio(folder)
        return AudioFolderConfig(name=audio.digest, folder=folder, audio=audio)

    @property
    def SPLITS(self) -> tuple[str, ...]:
        return tuple(self.builder_config.audio.splits)

    def check(self) -> None:
        """Raises UserError if soundfile isn't installed."""
        require("soundfile", "soundfile", "data.name", extra="audio")

    def _info(self) -> tfds.core.DatasetInfo:
        audio = self.builder_config.audio
        features: dict[str, Any] = {FILE_NAME.format(audio.audio): tfds.features.Text()}
        scalars = {
            str: tfds.features.Text(),
            int: tfds.features.Scalar(np.int64),
            float: tfds.features.Scalar(np.float32),
        }
        features |= {field: scalars[kind] for field, kind in (audio.kinds if audio.splits else {}).items()}
        if audio.classes:
            features[LABEL] = tfds.features.ClassLabel(names=audio.classes)
        features[audio.audio] = Audio(file_format=None, lazy_decode=True)
        return tfds.core.DatasetInfo(
            builder=self,
            description="Audio files of a folder.",
            disable_shuffling=True,
            features=tfds.features.FeaturesDict(features),
        )

    def _split_generators(self, dl_manager: object) -> dict[str, Iterator]:
        return {split: self._generate_examples(rows) for split, rows in self.builder_config.audio.splits.items()}

    def _generate_examples(self, rows: tuple[Row, ...]) -> Iterator[tuple[int, dict[str, object]]]:
        field = self.builder_config.audio.audio
        for number, row in enumerate(rows):
            content = (self.builder_config.folder / str(row[field])).read_bytes()
            labels = {LABEL: str(row[LABEL])} if LABEL in row else {}
            yield number, {**row, **labels, field: content, FILE_NAME.format(field): row[field]}
