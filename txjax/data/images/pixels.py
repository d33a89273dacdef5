"""Images as arrays and as Pillow's."""

from typing import Any

import numpy as np

from txjax.errors import UserError


def to_picture(image: np.ndarray, owner: str, channels: tuple[int, ...] = (1, 3)) -> Any:
    """An image, uint8 [H W C], as Pillow's. Raises UserError, naming `owner`, for other numbers of channels."""
    from PIL import Image

    if image.shape[2] not in channels:
        hint = "" if owner == "Channels" else "put Channels(count) before it"
        expected = f"images of {' or '.join(map(str, channels))} channels for {owner}"
        raise UserError("data.transforms", expected, f"{image.shape[2]} channels", hint=hint)
    return Image.fromarray(image[..., 0] if image.shape[2] == 1 else image)


def to_array(picture: Any) -> np.ndarray:
    """A Pillow image as uint8 [H W C]."""
    array = np.asarray(picture)
    return array[..., None] if array.ndim == 2 else array


def resize_image(image: np.ndarray, height: int, width: int) -> np.ndarray:
    """The image at another size, bicubic and antialiased."""
    from PIL import Image

    return to_array(to_picture(image, "resizing").resize((width, height), Image.Resampling.BICUBIC))
