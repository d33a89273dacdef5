"""A classifier of images."""

import flax.linen as nn
import jax.numpy as jnp
from jaxtyping import Array, Float

from txjax.models.vision.encoder import PatchEncoder
from txjax.nn import Linear, Normal
from txjax.types import setting


class ViT(PatchEncoder, kw_only=True):
    """The Vision Transformer (Dosovitskiy et al. 2021). Parameters: those of `PatchEncoder`, and `head` [D classes].

    Attributes:
      classes: how many.
    """

    classes: int = setting(at_least=1)

    @nn.compact
    def __call__(self, image: Float[Array, "B H W C"], train: bool = False) -> Float[Array, "B classes"]:
        """Logits, float32."""
        pooled = self.pool(self.encode(image, None, train))
        return Linear((self.classes,), ("classes",), initial=Normal(), name="head")(pooled, jnp.float32)
