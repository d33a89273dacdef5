"""The Vision Transformer."""

from typing import Any

import flax.linen as nn
from jaxtyping import Array, Float, Int

from txjax.models.vision.patch_encoder import PatchEncoder
from txjax.nn import Head


class ViT(PatchEncoder, kw_only=True):
    """The Vision Transformer (Dosovitskiy et al. 2021): `ViT(head=Classes(1000, FirstToken()), ...)`.

    Parameters: those of `PatchEncoder` and of the head.

    Attributes:
      head: from the features to the output. If None, the output is `Encoded`.
    """

    head: Head | None = None

    @nn.compact
    def __call__(
        self, image: Float[Array, "B H W C"], keep: Int[Array, "B M"] | None = None, train: bool = False
    ) -> Any:
        """The head's output.

        Args:
          keep: indices of the visible patches. If None, all are visible.
        """
        return self.read(self.encode(image, keep, train), self.head, train)
