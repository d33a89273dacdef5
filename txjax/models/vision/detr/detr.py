"""Detection of objects by an encoder-decoder that reads a feature map."""

import dataclasses
from typing import Any

import flax.linen as nn
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from txjax.models.model import Model
from txjax.models.transformer import SubTransformer
from txjax.models.transformer_stack import TransformerStack
from txjax.models.two_stacks import TwoStacks
from txjax.models.vision.detr.map_positions import MapPositions, SineMap
from txjax.nn import (
    MLP,
    Block,
    CrossAttention,
    Embed,
    Encoded,
    Head,
    HeadContext,
    Init,
    LayerNorm,
    Linear,
    Mask,
    Memory,
    Mixer,
    Norm,
    PositionedAttention,
    PositionedCrossAttention,
    PostNorm,
    StackInputs,
    Xavier,
    quantized,
)
from txjax.types import UserError, config_field


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


class DETR(TwoStacks, kw_only=True):
    """DETR (Carion et al. 2020): a backbone's feature map, an encoder, and a decoder with a query for each prediction.

    DETR(backbone=ResNet(...), queries=100, width=256, depth=6, heads=8, head=ObjectBoxes(classes=91))

    Positions of the map, and the queries' learned vectors, are added to the inputs of queries and keys in every layer.

    Parameters: `backbone`, `project`, `map_positions` if they are learned, `encoder` (`layers`), `queries/embedding`
    [Q D], `decoder` (`layers`, `norm_final`), and those of the head.

    Attributes:
      backbone: an encoder of images with `head=None` and no class token.
      queries: Q, the most objects that an image may have.
      map_positions: of the feature map: `SineMap`, `LearnedMap`.
      head: from the queries' features, which it finds for all layers, to the output. If None, the output is `Encoded`,
        whose `stages` are the layers but the last.
    """

    backbone: Model = config_field()
    queries: int = config_field(100, at_least=1)
    map_positions: MapPositions = dataclasses.field(default_factory=SineMap)
    mixer: Mixer | tuple[Mixer, ...] = dataclasses.field(default_factory=PositionedAttention)
    cross: CrossAttention = dataclasses.field(default_factory=PositionedCrossAttention)
    norm: Norm = dataclasses.field(default_factory=lambda: LayerNorm(eps=1e-5))
    mlp: MLP = dataclasses.field(default_factory=lambda: MLP(activation="relu"))
    block: Block = dataclasses.field(default_factory=PostNorm)
    initial: Init = dataclasses.field(default_factory=Xavier)
    head: Head | None = None

    @nn.compact
    def __call__(
        self, image: Float[Array, "B H W C"], extent: Int[Array, "B 2"] | None = None, train: bool = False
    ) -> Any:
        """The head's output.

        Args:
          extent: rows and columns of the image that are not padding. If None, all are.
        """
        encoded = self.backbone(image, train=train)
        if not isinstance(encoded, Encoded) or encoded.grid is None or encoded.prefix:
            expected = "an encoder of images with head=None and no class token"
            raise UserError("config.model.backbone", expected, type(self.backbone).__name__)
        grid = encoded.grid
        batch = len(image)
        pixel_mask = self.pixel_mask(image, extent, grid.rows, grid.columns)
        segments = None if extent is None else pixel_mask.reshape(batch, -1).astype(jnp.int32)
        positions = self.map_positions(pixel_mask, self.width)
        project = Linear((self.width,), ("embed",), ("width",), kernel_init=self.kernel_init, name="project")
        numbers = jnp.arange(grid.rows * grid.columns, dtype=jnp.int32)[None]
        within = StackInputs(numbers, numbers, Mask.within(segments), train, grid=grid, added=positions)
        encoder = TransformerStack(**self.encoder_fields(), name="encoder")
        features = encoder(project(encoded.features.astype(self.dtype)), within)

        indices = jnp.arange(self.queries, dtype=jnp.int32)[None]
        embed = Embed(self.queries, self.width, axis="queries", std=1.0, name="queries")
        queries = embed(indices, self.dtype)
        mask = Mask() if segments is None else Mask(query_segments=jnp.ones_like(indices), key_segments=segments)
        decoder = QueryDecoder(**self.decoder_fields(), name="decoder")
        x = jnp.zeros((batch, self.queries, self.width), self.dtype)
        memory = Memory(features, mask, positions)
        *others, last = decoder(x, StackInputs(indices, indices, train=train, memory=memory, added=queries))
        return self.apply_head(Encoded(last, stages=tuple(Encoded(stage) for stage in others)), self.head, train)

    @nn.nowrap
    def pixel_mask(
        self, image: Float[Array, "B H W C"], extent: Int[Array, "B 2"] | None, rows: int, columns: int
    ) -> Bool[Array, "B {rows} {columns}"]:
        """The parts of a map of rows x columns whose nearest pixel is not padding; at least the first one."""
        if extent is None:
            return jnp.ones((len(image), rows, columns), bool)
        row, column = (
            (jnp.arange(count) * side // count)[None] < jnp.maximum(extent[:, axis, None], 1)
            for axis, (count, side) in enumerate(zip((rows, columns), image.shape[1:3], strict=True))
        )
        return row[:, :, None] & column[:, None, :]

    @nn.nowrap
    def head_context(self, train: bool) -> HeadContext:
        """What heads get from the model: no dropout, as in the paper."""
        return dataclasses.replace(super().head_context(train), dropout=0.0)
