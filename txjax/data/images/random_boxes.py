"""Random boxes of an image, in pixels."""

import math

import numpy as np

from txjax.errors import UserError

Box = tuple[int, int, int, int]  # top, left, height, width


def draw_box(
    rng: np.random.Generator, height: int, width: int, area: tuple[float, float], ratio: tuple[float, float]
) -> Box | None:
    """A random box in an image: area uniform, width : height log-uniform, position uniform. None if ten don't fit."""
    for _ in range(10):
        pixels = rng.uniform(*area) * height * width
        shape = math.exp(rng.uniform(math.log(ratio[0]), math.log(ratio[1])))
        rows = round(math.sqrt(pixels / shape))
        columns = round(math.sqrt(pixels * shape))
        if 0 < rows <= height and 0 < columns <= width:
            return int(rng.integers(height - rows + 1)), int(rng.integers(width - columns + 1)), rows, columns
    return None


def middle_box(height: int, width: int, ratio: tuple[float, float]) -> Box:
    """The largest central box of an image with width : height in `ratio`."""
    rows = height
    columns = width
    if width < ratio[0] * height:
        rows = round(width / ratio[0])
    elif width > ratio[1] * height:
        columns = round(height * ratio[1])
    return (height - rows) // 2, (width - columns) // 2, rows, columns


def check_box(owner: str, area: tuple[float, float], ratio: tuple[float, float]) -> None:
    """Raises UserError for invalid ranges."""
    if not (len(area) == 2 and 0 < area[0] <= area[1] <= 1):
        raise UserError("data.transforms", f"{owner}.area to be two ascending numbers in (0, 1]", area)
    if not (len(ratio) == 2 and 0 < ratio[0] <= ratio[1]):
        raise UserError("data.transforms", f"{owner}.ratio to be two ascending numbers above 0", ratio)
