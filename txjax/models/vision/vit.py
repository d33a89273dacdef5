"""The image classifier."""

import flax.linen as nn
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from txjax.models.vision.encoder import PatchEncoder
from txjax.nn import Linear, Normal
from txjax.types import config_field


class ViT(PatchEncoder, kw_only=True):
    """The Vision Transformer (Dosovitskiy et al. 2021). Parameters: those of `PatchEncoder`, and `head` [D classes].

    Sows the input of its head, [B D], as `features` in the collection "intermediates".

    Attributes:
      classes: number of classes. If None, there is no head: returns the features.
    """

    classes: int | None = config_field(at_least=1)

    @nn.compact
    def __call__(
        self, image: Float[Array, "B H W C"], keep: Int[Array, "B M"] | None = None, train: bool = False
    ) -> Float[Array, "B classes"]:
        """Logits, float32.

        Args:
          keep: indices of the visible patches. If None, all are visible.
        """
        pooled = self.pooled(self.encode(image, keep, train))
        self.sow("intermediates", "features", pooled)
        if self.classes is None:
            return pooled.astype(jnp.float32)
        scaling = self.layer_scaling()
        head = Linear((self.classes,), ("classes",), initial=Normal(), scaling=scaling, name="head")
        return head(pooled, jnp.float32)
