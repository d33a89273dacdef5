"""Layers of two streams, of a text and of an image, which may be of different widths (Lu et al. 2019, figure 2)."""

from typing import ClassVar, NamedTuple

import flax.linen as nn
from jaxtyping import Array, Float, Int

from txjax.nn import Block, LayerContext, Mask, Memory
from txjax.types import PyTree

Streams = tuple[Float[Array, "B L D"], Float[Array, "B R E"]]  # of the text, and of the image


class StreamContexts(NamedTuple):
    """The context of each stream. The mask of its `memory` says what it sees of the other stream."""

    text: LayerContext
    image: LayerContext

    @classmethod
    def of(cls, text: Int[Array, "B L"], image: Int[Array, "B R"], train: bool) -> "StreamContexts":
        """The contexts of a text and of the regions of an image.

        Args:
          text, image: 1, and 0 for what is padding.
        """

        def context(here: Int[Array, "B n"], there: Int[Array, "B m"]) -> LayerContext:
            memory = Memory(mask=Mask(query_segments=here, key_segments=there))
            return LayerContext(mask=Mask.within(here), memory=memory, train=train)

        return cls(context(text, image), context(image, text))


class TwoStreams(Block):
    """A layer of each stream, at once. If their mixers are cross-attention, each reads the other stream.

    Parameters: below `text` and `image`.

    Attributes:
      text, image: the layers.
    """

    text: Block | None = None
    image: Block | None = None

    @property
    def branches(self) -> int:
        """Of a stream."""
        assert self.text and self.image
        return max(self.text.branches, self.image.branches)

    @nn.compact
    def __call__(self, x: PyTree, context: PyTree, depth_fraction: float | Float[Array, ""] = 1.0) -> PyTree:
        """From `Streams` to `Streams`. `context`: `StreamContexts`."""
        assert self.text and self.image
        text, image = x
        return (
            self.text(text, context.text.reading(image), depth_fraction),
            self.image(image, context.image.reading(text), depth_fraction),
        )


class ConnectedLayer(Block):
    """A co-attention connection, with feed-forward networks of its own, and then a layer of each stream.

    Parameters: below `connection` and `layer`.

    Attributes:
      connection: layers of cross-attention.
      layer: layers of self-attention.
    """

    takes_prompts: ClassVar[bool] = False

    connection: TwoStreams | None = None
    layer: TwoStreams | None = None

    @property
    def branches(self) -> int:
        """Of a stream."""
        assert self.connection and self.layer
        return self.connection.branches + self.layer.branches

    @nn.compact
    def __call__(self, x: PyTree, context: PyTree, depth_fraction: float | Float[Array, ""] = 1.0) -> PyTree:
        """From `Streams` to `Streams`. `context`: `StreamContexts`."""
        assert self.connection and self.layer
        return self.layer(self.connection(x, context, depth_fraction), context, depth_fraction)
