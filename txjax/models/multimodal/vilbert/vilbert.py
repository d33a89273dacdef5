"""ViLBERT: a text and the regions of an image, in two streams that read each other."""

import contextlib
import dataclasses
from collections.abc import Mapping
from typing import Any

import flax.linen as nn
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from txjax.errors import UserError
from txjax.models.attended_sequences import Sequences
from txjax.models.multimodal.vilbert.co_attention import ConnectedLayer, StreamContexts, TwoStreams
from txjax.models.multimodal.vilbert.regions import Regions
from txjax.models.text.bert.bert import Bert
from txjax.models.transformer import Transformer
from txjax.models.transformer_stack import TransformerStack
from txjax.nn import (
    Block,
    CrossAttention,
    Encoded,
    Head,
    Init,
    LayerNorm,
    Linear,
    Norm,
    Normal,
    PostNorm,
    quantized,
    set_model_fields,
)
from txjax.parametrization import Scaling, head_size
from txjax.types import config_field


class ViLBERT(Transformer, kw_only=True):
    """ViLBERT (Lu et al. 2019): a BERT, then `depth` times a co-attention connection and a layer of each stream.

    `width`, `heads`, `mlp` and all other parts of layers are of the image's stream; in the text's stream they are those
    of `text`. So the text passes `text.depth + depth` layers, the image `depth`.

    Parameters: `text`; `region_embed` and `place_embed`, linear layers from a region's features and from the five
    numbers of its place, `norm_regions`; `layers/block` (`connection` and `layer`, each of `text` and of `image`),
    `norm_text` and `norm_image` of blocks with a final norm, and those of the head.

    Attributes:
      text: the layers of the text before the first connection, with `head=None`.
      regions: the regions of the image: `GridRegions`, `GivenRegions`.
      cross: the attention of a connection, in both streams. Its `head_size`, if None, is width / cross_heads.
      cross_heads: its heads. If None, `heads`.
      head: from the features of the text, and those of the regions, its `Encoded.image`, to the output. If None, the
        output is `Encoded`.
    """

    text: Bert = config_field()
    regions: Regions = config_field()
    cross: CrossAttention = dataclasses.field(default_factory=CrossAttention)
    cross_heads: int | None = config_field(None, at_least=1)
    norm: Norm = dataclasses.field(default_factory=lambda: LayerNorm(eps=1e-12))
    block: Block = dataclasses.field(default_factory=PostNorm)
    initial: Init = dataclasses.field(default_factory=Normal)
    head: Head | None = None

    @nn.compact
    def __call__(
        self,
        tokens: Int[Array, "B L"],
        segments: Int[Array, "B L"] | None = None,
        positions: Int[Array, "B L"] | None = None,
        types: Int[Array, "B L"] | None = None,
        languages: Int[Array, "B L"] | None = None,
        image: Float[Array, "B H W C"] | None = None,
        regions: Float[Array, "B R features"] | None = None,
        region_boxes: Float[Array, "B R 4"] | None = None,
        region_segments: Int[Array, "B R"] | None = None,
        train: bool = False,
        hidden_regions: Bool[Array, "B R"] | None = None,
    ) -> Any:
        """The head's output.

        Args:
          segments, positions, types, languages: of the tokens, see `Bert`. The image is seen by all segments.
          image: what `GridRegions` reads, or
          regions, region_boxes, region_segments: what `GivenRegions` reads, see `data.keys`.
          hidden_regions: regions whose features are zeros. If None, none are.
        """
        if self.text.head is not None:
            raise UserError("config.model.text.head", "None", type(self.text.head).__name__)
        sources = {"image": image, "regions": regions, "region_boxes": region_boxes, "region_segments": region_segments}
        region_set = self.regions.read(sources)
        encoded = self.text(tokens, segments, positions, types, languages, train=train)
        features = region_set.features
        if hidden_regions is not None:
            features = jnp.where(hidden_regions[..., None], 0, features)
        embedded = self.embed_regions(features, region_set.place_numbers(), train)
        is_text, is_image = (
            jnp.ones(x.shape[:2], jnp.int32) if numbers is None else (numbers > 0).astype(jnp.int32)
            for x, numbers in ((tokens, segments), (features, region_set.segments))
        )
        with quantized(self.quantize) if self.quantize else contextlib.nullcontext():
            streams = encoded.features.astype(self.dtype), embedded
            text, of_image = self.built_stack()(streams, StreamContexts.of(is_text, is_image, train))
        if self.text.block.final_norm:
            text = self.text.norm.clone(parent=self, name="norm_text").normalise(text, train)
        if self.block.final_norm:
            of_image = self.norm.clone(parent=self, name="norm_image").normalise(of_image, train)
        of_regions = Encoded(of_image, region_set.segments)
        return self.apply_head(dataclasses.replace(encoded, features=text, image=of_regions), self.head, train)

    @nn.nowrap
    def embed_regions(
        self, features: Float[Array, "B R features"], place_numbers: Float[Array, "#B R 5"], train: bool
    ) -> Float[Array, "B R E"]:
        """The regions as they enter the image's stream."""

        def linear(name: str, x: Float[Array, "#B R n"]) -> Float[Array, "#B R E"]:
            fields: dict[str, Any] = dict(in_axes=("pixels",), kernel_init=self.kernel_init, name=name)
            return Linear((self.width,), ("embed",), **fields)(x.astype(self.dtype))

        x = linear("region_embed", features) + linear("place_embed", place_numbers)
        x = self.norm.clone(parent=self, name="norm_regions").normalise(x, train)
        return nn.Dropout(self.dropout, deterministic=not train)(x)

    @nn.nowrap
    def blocks(self) -> Block:
        """A connection and a layer of each stream."""
        connection = TwoStreams(text=self.reader(self.text_layer()), image=self.reader(self.image_layer()), parent=None)
        layer = TwoStreams(text=self.text_layer(), image=self.image_layer(), parent=None)
        return ConnectedLayer(connection=connection, layer=layer, parent=None)

    @nn.nowrap
    def text_layer(self) -> Block:
        """A layer of the text's stream, with the parts of the BERT's layers."""
        sizes = {name: getattr(self.text, name) for name in ("width", "heads", "kv_heads")}
        stack = TransformerStack(**self.text.parts(), **sizes, depth=self.depth, parent=None)
        return only_one(stack.blocks())

    @nn.nowrap
    def image_layer(self) -> Block:
        """A layer of the image's stream."""
        return only_one(super().blocks())

    @nn.nowrap
    def reader(self, layer: Block) -> Block:
        """The layer with attention to the other stream in the place of self-attention."""
        assert layer.mixer is not None
        heads = self.cross_heads or self.heads
        size = self.cross.head_size or head_size(self.width, heads)
        fields = dict(heads=heads, kv_heads=heads, kernel_init=layer.mixer.kernel_init)
        cross = set_model_fields(self.cross, "config.model.cross", **fields).clone(parent=None, head_size=size)
        return layer.clone(parent=None, name=None, mixer=cross)

    @nn.nowrap
    def sequences(self, path: str, inputs: Mapping[str, Any]) -> tuple[Sequences, Sequences] | None:
        """In a connection each stream reads the other one."""
        streams: dict[str, Sequences] = {"text": {"tokens": None}, "image": {self.regions.argument: None}}
        *_, part, stream, _ = ("", "", *path.split("/"))
        if part not in ("connection", "layer"):
            return streams["text"], streams["text"]
        other = "image" if stream == "text" else "text"
        return streams[stream], streams[other if part == "connection" else stream]

    @nn.nowrap
    def scalings(self) -> dict[str, Scaling | None]:
        """The layers of the text's stream scale by its sizes."""
        of_text = self.text.scaling()
        streams = {f"layers/block/{part}/text": of_text for part in ("connection", "layer")}
        return super().scalings() | streams

    @nn.nowrap
    def takes_prompts(self) -> bool:
        return False


def only_one(blocks: Block | tuple[Block, ...]) -> Block:
    """The block. Raises UserError if there are several, which take turns."""
    if isinstance(blocks, tuple):
        raise UserError("config.model.mixer", "one mixer in each stream", f"{len(blocks)} that take turns")
    return blocks
