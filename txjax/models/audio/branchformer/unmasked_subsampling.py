"""The subsampling of ESPnet, which reads padding."""

import flax.linen as nn
from jaxtyping import Array, Float, Int

from txjax.nn.audio.framing import Count
from txjax.nn.audio.subsampling import ImageSubsampling
from txjax.types import config_field


class UnmaskedSubsampling(ImageSubsampling):
    """`ImageSubsampling` whose convolutions read padding, as ESPnet's do. Only for its models.

    A token is real if the first frame that it sees is, so before padding an example may have one more than alone, of
    which some frames are padding: of 40 frames 10 tokens, but 9 alone.
    """

    zeros: int = config_field(0, at_least=0, at_most=1)

    @nn.nowrap
    def length(self, frames: Count) -> Count:
        """The number of tokens of so many frames before padding; those behind the end of a batch do not exist."""
        return -(-frames // self.factor)

    def __call__(self, features: Float[Array, "B T C"], length: Int[Array, "B"] | None = None) -> Float[Array, "B L D"]:
        """The tokens, in the dtype of the features, for any `length`."""
        return super().__call__(features)
