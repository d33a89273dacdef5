"""Trained pixels at the border of a model's images."""

import dataclasses
from typing import Any, ClassVar

import flax.linen as nn
import jax.numpy as jnp
from flax.core import meta
from jaxtyping import Array, Float

from txjax.errors import UserError
from txjax.nn.adapters.adapter import FIELD, Adapter
from txjax.nn.layers.linear import parameter
from txjax.types import config_field


class Border(nn.Module):
    """What is added to the border of images. Parameters, which start at zero, with p = `width`:

    `rows` [2p W C], the first p rows and the last; `columns` [H-2p 2p C], those of the rows between.
    """

    width: int

    @nn.compact
    def __call__(self, image: Float[Array, "B H W C"]) -> Float[Array, "B H W C"]:
        """The image with its border changed. Raises UserError for one too small, or of another size than before."""
        (height, width, channels) = image.shape[1:]
        size = 2 * self.width
        if size >= min(height, width):
            expected = f"less than half of the image's {height} x {width} pixels"
            raise UserError(f"{FIELD}.width", expected, self.width)
        shapes = {"rows": (size, width, channels), "columns": (height - size, size, channels)}
        axes = {"rows": ("prompt", "columns", "pixels"), "columns": ("rows", "prompt", "pixels")}
        for name, x in meta.unbox(self.variables.get("params", {})).items():
            if x.shape != shapes[name]:
                hint = f"{name} {list(x.shape)} is of another size"
                raise UserError(FIELD, f"a prompt of the image's {height} x {width} pixels", "PixelPrompt", hint=hint)
        rows, columns = (parameter(self, name, nn.initializers.zeros, shapes[name], axes[name]) for name in shapes)
        top, bottom = jnp.split(rows, 2)
        left, right = jnp.split(columns, 2, axis=1)
        inside = jnp.zeros((height - size, width - size, channels), image.dtype)
        border = jnp.concatenate([top, jnp.concatenate([left, inside, right], 1), bottom])
        return image + border[None].astype(image.dtype)


@dataclasses.dataclass
class PixelPrompt(Adapter):
    """image + border, for `width` trained pixels at each side (Bahng et al. 2022, the template "padding").

    The images are those that enter the model, behind the data set's normalisation. They keep their size, so that any
    model takes it, whatever its positions and windows. (For convolutional networks Jia et al. 2022, VPT, put such
    pixels around the image.) As the prompt starts at zero, the adapted model is, at first, the model. It is as large as
    the images that it was drawn for.

    Attributes:
      paths: a regular expression for the whole path of a module that images enter, "" for the model itself.
      width: p. There are 2 C p (H + W - 2p) parameters.
    """

    name: ClassVar[str] = "pixel_prompt"
    of: ClassVar[str] = "image"

    width: int = config_field(30, at_least=1)

    def enter(self, module: Any, x: Float[Array, "B H W C"]) -> Float[Array, "B H W C"]:
        return Border(self.width, name=self.name)(x)
