"""Data sets with an image in each record: what all of them say of it."""

import dataclasses
from typing import Any

from txjax.data.dataset import RecordDataset, describing_field
from txjax.data.images.image_records import check_normalisation, check_pixels
from txjax.data.images.transforms import Transform
from txjax.errors import require
from txjax.types import config_field


@dataclasses.dataclass
class ImageData(RecordDataset):
    """Base class: images that are decoded, transformed and normalised, in this order.

    The `image` of an example is float32 [H W C], (pixels / 255 - mean) / std.

    Attributes:
      shape: height, width and channels, after the transforms.
      image_feature: the name of the set's image feature.
      corrupt: what happens to an image that cannot be decoded: "refuse" is an error that names its record; "skip"
        leaves it out, as an example of weight 0, with a line in the log and their number so far.
      mean: the mean of the pixels (/ 255), one for all channels or one per channel.
      std: their standard deviation, likewise.
      transforms: applied in this order; augmentations belong only in the training set's config.
    """

    shape: tuple[int, int, int] = describing_field((8, 8, 1))
    image_feature: str = describing_field("image")
    corrupt: str = config_field("refuse", choices=("refuse", "skip"))
    mean: tuple[float, ...] = describing_field((0.5,))
    std: tuple[float, ...] = describing_field((0.5,))
    transforms: tuple[Transform, ...] = ()

    def check_images(self) -> Any:
        """Checks all that the images need; returns the set's features. Reads only metadata.

        Raises:
          UserError: the set, its split or its image feature is missing, or a setting doesn't fit the images.
        """
        features = self.record_split.check()
        check_pixels(self.image_feature, features)
        require("PIL", "pillow", "data.name")
        check_normalisation(self.mean, self.std, self.shape[2])
        for transform in self.transforms:
            transform.check()
        return features
