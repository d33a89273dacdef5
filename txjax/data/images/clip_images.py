"""How images are prepared for CLIP's towers: the statistics of its pixels, and squares without a crop."""

import dataclasses

import numpy as np

from txjax.data.images.transforms import Transform
from txjax.errors import UserError

# Of red, green and blue (/ 255), in the authors' code (Radford et al. 2021).
CLIP_MEAN = (0.48145466, 0.4578275, 0.40821073)
CLIP_STD = (0.26862954, 0.26130258, 0.27577711)


@dataclasses.dataclass
class PadSquare(Transform):
    """Pads the shorter side on both ends to the longer one, so that nothing is lost where a square is cropped.

    As in LLaVA 1.5 (Liu et al. 2023b, section 3.2). Of an odd number of rows or columns the last end has one more.

    Attributes:
      color: what is padded with (/ 255), one number for all channels or one per channel; rounded down.
    """

    color: tuple[float, ...] = CLIP_MEAN

    def check(self) -> None:
        if not self.color or not 0 <= min(self.color) <= max(self.color) <= 1:
            raise UserError("data.transforms", "PadSquare.color to be numbers from 0 to 1", self.color)

    def __call__(self, image: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        height, width, channels = image.shape
        if len(self.color) not in (1, channels):
            hint = "put Channels(count) before it, or set its color"
            expected = f"images of {len(self.color)} channels for PadSquare"
            raise UserError("data.transforms", expected, f"{channels} channels", hint=hint)
        side = max(height, width)
        top = (side - height) // 2
        left = (side - width) // 2
        square = np.empty((side, side, channels), np.uint8)
        square[:] = [int(value * 255) for value in self.color]
        square[top : top + height, left : left + width] = image
        return square
