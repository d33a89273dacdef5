"""UniT's encoder of images."""

from typing import NamedTuple

import flax.linen as nn
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from txjax.models.transformer_stack import TransformerStack, stack_fields
from txjax.models.vision.detr.map_reader import MapReader


class DecoderSource(NamedTuple):
    """What a decoder reads of an image or of a text.

    Attributes:
      features: of its places or tokens.
      positions: which are added to the inputs of keys.
      segments: 0 is padding. If None, nothing is padding.
    """

    features: Float[Array, "B S D"]
    positions: Float[Array, "#B S D"]
    segments: Int[Array, "B S"] | None


class MapEncoder(MapReader, kw_only=True):
    """DETR's encoder of images, by whose parameters it may begin, with a token of the task before the map.

    Its output is the sum of the stack's input and output (as in the authors' code).

    Parameters: `backbone`, `project`, `map_positions` if they are learned, `encoder` (`layers`).
    """

    @nn.compact
    def __call__(
        self,
        image: Float[Array, "B H W C"],
        extent: Int[Array, "B 2"] | None = None,
        train: bool = False,
        before: Float[Array, "B n D"] | None = None,
    ) -> DecoderSource:
        """The places of the feature map, row by row.

        Args:
          extent: rows and columns of the image that are not padding. If None, all are.
          before: tokens without a position that all places see. They are not in the output. If None, there are none.
        """
        x, inputs = self.read_map(image, extent, train)
        count = 0 if before is None else before.shape[1]
        tokens = x if before is None else jnp.concatenate([before.astype(x.dtype), x], axis=1)
        encoder = TransformerStack(**stack_fields(self), name="encoder")
        features = encoder(tokens, inputs.after_prompt(count, 0) if count else inputs)
        assert inputs.added is not None
        return DecoderSource(x + features[:, count:], inputs.added, inputs.mask.key_segments)
