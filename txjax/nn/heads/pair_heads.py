"""Heads of encoders of pairs of an image and a text: of both, of the image's regions, and those for pretraining."""

import dataclasses

import jax
from jaxtyping import Array, Float

from txjax.errors import UserError
from txjax.nn.heads.class_heads import Pool
from txjax.nn.heads.head import Encoded, Head, HeadContext
from txjax.nn.heads.logits import Logits
from txjax.nn.heads.vocab_heads import MaskedTokens
from txjax.nn.layers.mlp import ACTIVATIONS
from txjax.types import config_field


@dataclasses.dataclass
class ProductPooler(Pool):
    """relu(Linear(the text's first token)) * relu(Linear(the image's first region)) (Lu et al. 2019, 3.1).

    Parameters `pooler_text` [D size] and `pooler_image` [Dv size].

    Attributes:
      size: of the product.
    """

    size: int = config_field(at_least=1)

    def __call__(self, encoded: Encoded, context: HeadContext) -> Float[Array, "B size"]:
        text = context.linear("pooler_text", self.size, "width")(encoded.features[:, 0])
        image = context.linear("pooler_image", self.size, "width")(regions_of(encoded).features[:, 0])
        return jax.nn.relu(text) * jax.nn.relu(image)


@dataclasses.dataclass
class RegionOutputs(Head):
    """Outputs of each region of the image: logits of classes of a detector, or the region's features.

    Parameters `transform` [Dv Dv], `norm_transform`, `head` [Dv size].

    Attributes:
      size: the number of classes, or of features.
    """

    size: int = config_field(at_least=1)

    def __call__(self, encoded: Encoded, context: HeadContext) -> Float[Array, "B R size"]:
        """The outputs, float32."""
        regions = regions_of(encoded).features
        y = context.linear("transform", regions.shape[-1], "width")(regions)
        y = context.normalise("norm_transform", ACTIVATIONS[context.activation](y))
        return context.linear("head", self.size, "classes")(y, jax.numpy.float32)


@dataclasses.dataclass
class MaskedPairs(Head):
    """ViLBERT's heads for pretraining (Lu et al. 2019, 3.2): of masked tokens, of pairs, and of masked regions.

    Parameters: those of `text`, and those of `regions` below `regions`.

    Attributes:
      text: the heads of the masked tokens, and of whether image and text belong together, its `next_sentence`.
      regions: the head of the masked regions.
    """

    text: MaskedTokens = config_field()
    regions: RegionOutputs = config_field()

    def __call__(
        self, encoded: Encoded, context: HeadContext
    ) -> tuple[Logits, Float[Array, "B 2"] | None, Float[Array, "B R size"]]:
        """Lazy logits [B L V] of the token at each position, those of pairs (or None), and the regions' outputs."""
        tokens, pairs = self.text(encoded, context)
        return tokens, pairs, context.within("regions", lambda context: self.regions(encoded, context))


def regions_of(encoded: Encoded) -> Encoded:
    """The regions of the image. Raises UserError if the encoder reads no pairs of an image and a text."""
    if encoded.image is None:
        expected = "a head without regions of an image, since the model reads no image beside a text"
        raise UserError("config.model.head", expected, "a head for models such as ViLBERT")
    return encoded.image
