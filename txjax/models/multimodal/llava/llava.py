"""LLaVA: the features of images in the places of a language model's image tokens."""

import dataclasses
from typing import Any

import flax.linen as nn
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from txjax.errors import UserError
from txjax.models.model import Model
from txjax.models.multimodal.llava.projectors import MLPProjector, Projector
from txjax.models.text.decoder.decoder import Decoder
from txjax.nn import Embed, Encoded
from txjax.tree import config_fields
from txjax.types import config_field


class LLaVA(Decoder, kw_only=True):
    """A language model that reads images (Liu et al. 2023a, section 4.1).

    A text has `image_token` once for each patch of an image. The k-th of these in a text gets the k-th patch of its
    images, in their order, so a text may have several images, or none. The tower's class token is left out.

    Parameters: the parameters of `Decoder`, of `vision` and of `projector`.

    Attributes:
      vision: an encoder of images without a head. `stack.outputs=(-2,)` takes the last but one of its layers, as the
        paper does.
      projector: from the tower's features to the width.
      image_token: the id of the tokens that stand for patches.
    """

    vision: Model = config_field()
    projector: Projector = dataclasses.field(default_factory=MLPProjector)
    image_token: int = config_field(at_least=0)

    @classmethod
    def of(cls, decoder: Decoder, **fields: Any) -> "LLaVA":
        """The language model `decoder` with the other fields."""
        return cls(**{field.name: getattr(decoder, field.name) for field in config_fields(decoder)}, **fields)

    @nn.compact
    def __call__(
        self,
        tokens: Int[Array, "B L"],
        segments: Int[Array, "B L"] | None = None,
        positions: Int[Array, "B L"] | None = None,
        types: Int[Array, "B L"] | None = None,
        languages: Int[Array, "B L"] | None = None,
        train: bool = False,
        image: Float[Array, "B H W C"] | None = None,
        images: Float[Array, "B I H W C"] | None = None,
    ) -> Any:
        """The head's output: by default, lazy logits [B L V] of the token after each one.

        Args:
          image: of each text, or
          images: several of each text. Of a text with fewer image tokens than patches the last patches are not read. If
            both are None, image tokens are read as text, as in later calls with a cache.
          segments, positions, types, languages: see `Decoder`.
        """
        embed = Embed(self.vocab, self.width, name="embed")
        x = embed(tokens, self.dtype)
        if images is None and image is not None:
            images = image[:, None]
        if images is not None:
            is_patch = tokens == self.image_token
            if segments is not None:
                is_patch &= segments > 0  # padding may have the same token
            x = place(self.patches(images, train), is_patch, x)
        return self.read(x, embed, segments, positions, train)

    @nn.nowrap
    def patches(self, images: Float[Array, "B I H W C"], train: bool) -> Float[Array, "B N D"]:
        """The projected features of all patches of each text's images, one image after the other."""
        encoded = self.vision(images.reshape(-1, *images.shape[2:]), train=train)
        if not isinstance(encoded, Encoded) or encoded.grid is None:
            expected = "an encoder of images without a head, such as CLIPImageTower(head=None)"
            raise UserError("config.model.vision", expected, type(self.vision).__name__)
        features = encoded.features[:, encoded.prefix :].astype(self.dtype)
        projected = self.projector(features, self.width, self.kernel_init)
        return projected.reshape(len(images), -1, self.width)


def place(
    patches: Float[Array, "B N D"], is_patch: Bool[Array, "B L"], x: Float[Array, "B L D"]
) -> Float[Array, "B L D"]:
    """x with the patches, in order, where `is_patch` says."""
    index = jnp.clip(jnp.cumsum(is_patch, 1) - 1, 0, patches.shape[1] - 1)
    return jnp.where(is_patch[..., None], jnp.take_along_axis(patches, index[..., None], axis=1), x)
