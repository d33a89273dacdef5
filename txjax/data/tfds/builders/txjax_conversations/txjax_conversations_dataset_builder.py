"""`txjax_conversations`: the conversations of a folder's JSON files with the images that they are about."""

import dataclasses
import io
from collections.abc import Iterator
from pathlib import Path

import tensorflow_datasets as tfds

from txjax.data.multimodal.conversation_folders import ConversationFolder, StoredConversation, list_conversations
from txjax.types import UserError, require


@dataclasses.dataclass(eq=False)
class ConversationFolderConfig(tfds.core.BuilderConfig):
    """The conversations of one state of a folder.

    Attributes:
      folder: its path.
      conversations: of the folder.
    """

    folder: Path = Path()
    conversations: ConversationFolder = dataclasses.field(default_factory=lambda: ConversationFolder({}, ""))


class Builder(tfds.core.GeneratorBasedBuilder):
    """Records with `images`, any number of any size, `files`, their paths, `conversations`, the messages, and `file`.

    The last is the JSON file, the number of the entry and its id. An image whose file is missing is empty. A folder
    that changes is another configuration of the set, which is prepared anew.
    """

    VERSION = tfds.core.Version("1.0.0")

    @classmethod
    def config_of(cls, data_dir: str | None) -> ConversationFolderConfig:
        """The configuration of the folder `data_dir`. Raises UserError if its JSON files have no conversations."""
        if data_dir is None:
            hint = "--config.data.data_dir=FOLDER"
            raise UserError("data.data_dir", "the folder of images, with a JSON file", None, hint=hint)
        folder = Path(data_dir).expanduser().absolute()
        conversations = list_conversations(folder)
        return ConversationFolderConfig(name=conversations.digest, folder=folder, conversations=conversations)

    @property
    def SPLITS(self) -> tuple[str, ...]:
        return tuple(self.builder_config.conversations.splits)

    def check(self) -> None:
        """Raises UserError if Pillow isn't installed."""
        require("PIL", "pillow", "data.name")

    def _info(self) -> tfds.core.DatasetInfo:
        text = tfds.features.Text()
        return tfds.core.DatasetInfo(
            builder=self,
            description="Conversations about the images of a folder.",
            disable_shuffling=True,
            features=tfds.features.FeaturesDict(
                {
                    "images": tfds.features.Sequence(tfds.features.Image(shape=(None, None, 3))),
                    "files": tfds.features.Sequence(text),
                    "conversations": tfds.features.Sequence({"from": text, "value": text}),
                    "file": text,
                }
            ),
        )

    def _split_generators(self, dl_manager: object) -> dict[str, Iterator]:
        splits = self.builder_config.conversations.splits
        return {split: self._generate_examples(entries) for split, entries in splits.items()}

    def _generate_examples(self, entries: tuple[StoredConversation, ...]) -> Iterator[tuple[int, dict[str, object]]]:
        for number, entry in enumerate(entries):
            paths = [self.builder_config.folder / image for image in entry.images]
            yield (
                number,
                {
                    "images": [io.BytesIO(path.read_bytes() if path.is_file() else b"") for path in paths],
                    "files": list(entry.images),
                    "conversations": [{"from": speaker, "value": value} for speaker, value in entry.messages],
                    "file": entry.place,
                },
            )
