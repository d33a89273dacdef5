"""`txjax_folder`: the images of a folder with a folder for each class."""

import dataclasses
import io
from collections.abc import Iterator
from pathlib import Path

import tensorflow_datasets as tfds

from txjax.data.images.class_folders import ClassFolders, ImageFile, list_images
from txjax.types import UserError, require


@dataclasses.dataclass(eq=False)
class FolderConfig(tfds.core.BuilderConfig):
    """The images of one state of a folder.

    Attributes:
      folder: its path.
      images: of the folder.
    """

    folder: Path = Path()
    images: ClassFolders = dataclasses.field(default_factory=lambda: ClassFolders({}, ""))


class Builder(tfds.core.GeneratorBasedBuilder):
    """Records with `image`, three channels of any size, `label`, the class by the folder's name, and `file`, its path.

    A folder that changes is another configuration of the set, which is prepared anew.
    """

    VERSION = tfds.core.Version("1.0.0")

    @classmethod
    def config_of(cls, data_dir: str | None) -> FolderConfig:
        """The configuration of the folder `data_dir`. Raises UserError if it has no images in folders of classes."""
        if data_dir is None:
            hint = "--config.data.data_dir=FOLDER"
            raise UserError("data.data_dir", "the folder of images, with a folder for each class", None, hint=hint)
        folder = Path(data_dir).expanduser().absolute()
        images = list_images(folder)
        return FolderConfig(name=images.digest, folder=folder, images=images)

    @property
    def SPLITS(self) -> tuple[str, ...]:
        return tuple(self.builder_config.images.splits)

    def check(self) -> None:
        """Raises UserError if Pillow isn't installed."""
        require("PIL", "pillow", "data.name")

    def _info(self) -> tfds.core.DatasetInfo:
        return tfds.core.DatasetInfo(
            builder=self,
            description="Images of a folder, with a folder for each class.",
            disable_shuffling=True,
            features=tfds.features.FeaturesDict(
                {
                    "image": tfds.features.Image(shape=(None, None, 3)),
                    "label": tfds.features.ClassLabel(names=self.builder_config.images.classes),
                    "file": tfds.features.Text(),
                }
            ),
        )

    def _split_generators(self, dl_manager: object) -> dict[str, Iterator]:
        return {split: self._generate_examples(part) for split, part in self.builder_config.images.splits.items()}

    def _generate_examples(self, images: tuple[ImageFile, ...]) -> Iterator[tuple[int, dict[str, object]]]:
        for number, image in enumerate(images):
            content = (self.builder_config.folder / image.path).read_bytes()
            yield number, {"image": io.BytesIO(content), "label": image.label, "file": image.path}
