"""Detection of objects by an encoder-decoder that reads a feature map."""

import dataclasses
from collections.abc import Mapping
from typing import Any

import flax.linen as nn
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from txjax.models.attended_sequences import Sequences
from txjax.models.transformer import SubTransformer
from txjax.models.transformer_stack import TransformerStack
from txjax.models.two_stacks import TwoStacks
from txjax.models.vision.detr.map_reader import MapReader
from txjax.nn import (
    CrossAttention,
    Embed,
    Encoded,
    Head,
    HeadContext,
    Mask,
    Memory,
    PositionedCrossAttention,
    StackInputs,
    quantized,
)
from txjax.types import config_field


class QueryDecoder(SubTransformer, kw_only=True):
    """A stack of which each layer's stream is returned. Parameters: `layers`, `norm_final`."""

    @nn.compact
    def __call__(self, x: Float[Array, "B Q D"], inputs: StackInputs) -> Float[Array, "layers B Q D"]:
        """The streams after all layers, with one norm."""
        return self.norm.clone(parent=self, name="norm_final").normalise(self.layers(x, inputs), inputs.train)

    def layers(self, x: Float[Array, "B Q D"], inputs: StackInputs) -> Float[Array, "layers B Q D"]:
        x, context = self.begin(x, inputs)
        with quantized(self.quantize):
            return self.built_stack()(x, context, every=True)[1]


class DETR(MapReader, TwoStacks, kw_only=True):
    """DETR (Carion et al. 2020): a backbone's feature map, an encoder, and a decoder with a query for each prediction.

    DETR(backbone=ResNet(...), queries=100, width=256, depth=6, heads=8, head=ObjectBoxes(classes=91))

    Positions of the map, and the queries' learned vectors, are added to the inputs of queries and keys in every layer.

    Parameters: `backbone`, `project`, `map_positions` if they are learned, `encoder` (`layers`), `queries/embedding`
    [Q D], `decoder` (`layers`, `norm_final`), and those of the head.

    Attributes:
      queries: Q, the most objects that an image may have.
      head: from the queries' features, which it finds for all layers, to the output. If None, the output is `Encoded`,
        whose `stages` are the layers but the last.
    """

    queries: int = config_field(100, at_least=1)
    cross: CrossAttention = dataclasses.field(default_factory=PositionedCrossAttention)
    head: Head | None = None

    @nn.compact
    def __call__(
        self, image: Float[Array, "B H W C"], extent: Int[Array, "B 2"] | None = None, train: bool = False
    ) -> Any:
        """The head's output.

        Args:
          extent: rows and columns of the image that are not padding. If None, all are.
        """
        x, inputs = self.read_map(image, extent, train)
        features = TransformerStack(**self.encoder_fields(), name="encoder")(x, inputs)
        segments = inputs.mask.key_segments
        indices = jnp.arange(self.queries, dtype=jnp.int32)[None]
        embed = Embed(self.queries, self.width, axis="queries", std=1.0, name="queries")
        queries = embed(indices, self.dtype)
        mask = Mask() if segments is None else Mask(query_segments=jnp.ones_like(indices), key_segments=segments)
        decoder = QueryDecoder(**self.decoder_fields(), name="decoder")
        empty = jnp.zeros((len(image), self.queries, self.width), self.dtype)
        memory = Memory(features, mask, inputs.added)
        *others, last = decoder(empty, StackInputs(indices, indices, train=train, memory=memory, added=queries))
        return self.apply_head(Encoded(last, stages=tuple(Encoded(stage) for stage in others)), self.head, train)

    @nn.nowrap
    def sequences(self, path: str, inputs: Mapping[str, Any]) -> tuple[Sequences, Sequences] | None:
        """The decoder's queries read each other, and the image."""
        image: Sequences = {"image": None}
        if path.startswith("encoder/"):
            return image, image
        return query_sequences(path, image) if path.startswith("decoder/") else None

    @nn.nowrap
    def head_context(self, train: bool) -> HeadContext:
        """What heads get from the model: no dropout, as in the paper."""
        return dataclasses.replace(super().head_context(train), dropout=0.0)


def query_sequences(path: str, memory: Sequences) -> tuple[Sequences, Sequences]:
    """What the attentions of a `QueryDecoder` read: the queries each other, and in cross-attention the memory.

    See `StatesSequences`.
    """
    queries: Sequences = {"queries": None}
    return queries, memory if path.endswith("/cross") else queries
