"""The Segment Anything Model."""

import dataclasses
from typing import Any, ClassVar

import flax.linen as nn
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from txjax.data.point_labels import IGNORED
from txjax.errors import UserError
from txjax.models.model import Model
from txjax.models.transformer import Transformer
from txjax.models.vision.sam.decomposed_attention import DecomposedAttention, DecomposedWindowAttention
from txjax.models.vision.sam.mask_decoder import MaskDecoder
from txjax.models.vision.sam.prompt_encoder import FINER, PromptEncoder
from txjax.models.vision.sam.random_fourier import RandomFourier
from txjax.nn import (
    ACTIVATIONS,
    MLP,
    Attention,
    Block,
    Conv,
    CrossAttention,
    Encoded,
    Grid,
    Linear,
    Mixer,
    Norm,
    PositionedAttention,
    PositionedCrossAttention,
    PostNorm,
)
from txjax.nn.parameters.init import KernelInit
from txjax.types import config_field


def windows_then_all(period: int, window: int, side: int, **fields: Any) -> tuple[Attention, ...]:
    """The attentions of a period of layers: windows, and in the last layer the whole grid (Li et al. 2022, ViTDet).

    Args:
      period: layers.
      window: side of a window, in patches.
      side: of the grid.
      fields: of all attentions.
    """
    local = (DecomposedWindowAttention(side=window, **fields) for _ in range(period - 1))
    return (*local, DecomposedAttention(side=side, **fields))


class Neck(nn.Module):
    """From an encoder's features to those that the decoder reads. Parameters: `linear`, `norm_1`, `conv`, `norm_2`.

    Attributes:
      width: D.
      norm: a template.
      kernel_init: see `Linear`.
    """

    width: int
    norm: Norm
    kernel_init: KernelInit

    @nn.compact
    def __call__(self, x: Float[Array, "B r c E"], train: bool) -> Float[Array, "B r c D"]:
        """A projection and a convolution, each normalised."""
        fields: dict[str, Any] = {"use_bias": False, "kernel_init": self.kernel_init}
        x = Linear((self.width,), ("embed",), ("width",), **fields, name="linear")(x)
        x = self.norm.clone(parent=self, name="norm_1").normalise(x, train)
        x = Conv((self.width,), **fields, name="conv")(x)
        return self.norm.clone(parent=self, name="norm_2").normalise(x, train)


class SAM(Transformer, kw_only=True):
    """Masks of the objects at which prompts point (Kirillov et al. 2023).

    SAM(encoder=ViT(patch=16, width=768, depth=12, heads=12, class_token=None, positions=Learned(max_length=64**2),
                    mixer=windows_then_all(3, 14, 64), block=PreNormWithoutFinal(), stack=PeriodicStack()))  # SAM B

    An image is embedded once, and its objects are prompted several times, as a user clicks again:

        embedded = model.apply(variables, image, method="embed_image")
        logits, ious = model.apply(variables, embedded, points, point_labels, method="predict")

    Parameters: `encoder`, `neck`, `prompts`, `decoder`. Sows `features` [B D], the mean of the embedded image.

    Attributes:
      finer: rows of places of a mask for each row of patches.
      encoder: of images, with `head=None`.
      width, depth, heads, attention, mlp, norm: of the decoder, and all other fields of `Transformer`. `stack.remat` is
        of each round of clicks, too.
      cross: between the decoder's tokens and the image; in SAM its heads have half the size of the others.
      masks: of an ambiguous prompt; the model has one more for prompts that are not.
      iou_hidden: the size of the hidden layers before the predicted IoUs.
      fourier: the features of points and of the image's patches.
      mask_channels: of a mask that is a prompt, before it is projected.
      activation: of that mask, and of the finer images that masks are made of.
    """

    finer: ClassVar[int] = FINER
    encoder: Model
    width: int = config_field(256, at_least=1)
    depth: int = config_field(2, at_least=1)
    heads: int = config_field(8, at_least=1)
    mixer: Mixer | tuple[Mixer, ...] = dataclasses.field(default_factory=PositionedAttention)
    cross: CrossAttention = dataclasses.field(default_factory=lambda: PositionedCrossAttention(head_size=16))
    mlp: MLP = dataclasses.field(default_factory=lambda: MLP(hidden=2048, activation="relu"))
    block: Block = dataclasses.field(default_factory=PostNorm)
    masks: int = config_field(3, at_least=1)
    iou_hidden: int = config_field(256, at_least=1)
    fourier: RandomFourier = dataclasses.field(default_factory=RandomFourier)
    mask_channels: int = config_field(16, at_least=4)
    activation: str = config_field("gelu", choices=tuple(ACTIVATIONS))

    def setup(self) -> None:
        norm = self.norm.clone(parent=None, name=None)
        self.neck = Neck(self.width, norm, kernel_init=self.kernel_init)
        parts = self.fourier, self.mask_channels, norm, self.activation
        self.prompts = PromptEncoder(self.width, *parts, kernel_init=self.kernel_init)
        self.decoder = MaskDecoder(
            width=self.width,
            depth=self.depth,
            heads=self.heads,
            kv_heads=self.kv_heads,
            masks=self.masks + 1,
            iou_hidden=self.iou_hidden,
            cross=self.cross.clone(parent=None, name=None),
            upscale_activation=self.activation,
            whole=self.scaling(),
            **self.parts(),
        )

    def __call__(
        self,
        image: Float[Array, "B H W C"],
        points: Float[Array, "B N P 2"] | None = None,
        point_labels: Int[Array, "B N P"] | None = None,
        mask: Float[Array, "B N h w"] | None = None,
        train: bool = False,
    ) -> tuple[Float[Array, "B N M h w"], Float[Array, "B N M"]]:
        """`predict` of the embedded image. Without points, one object that no prompt describes."""
        if points is None or point_labels is None:
            points = jnp.zeros((len(image), 1, 0, 2), jnp.float32)
            point_labels = jnp.zeros((len(image), 1, 0), jnp.int32)
        return self.predict(self.embed_image(image, train), points, point_labels, mask, train)

    def embed_image(self, image: Float[Array, "B H W C"], train: bool = False) -> Float[Array, "B r c D"]:
        """The embedding of each patch of an image, rows and columns of patches."""
        encoded = self.encoder(image, train=train)
        if not isinstance(encoded, Encoded) or encoded.grid is None:
            expected = "an encoder of images with head=None"
            raise UserError("config.model.encoder", expected, type(self.encoder).__name__)
        patches = encoded.features[:, encoded.prefix :]
        grid = encoded.grid.rows, encoded.grid.columns
        embedded = self.neck(patches.reshape(len(image), *grid, -1).astype(self.dtype), train)
        mean = embedded.mean((1, 2))
        self.sow("intermediates", "features", mean, init_fn=tuple, reduce_fn=lambda _, new: (new,))
        return embedded

    def predict(
        self,
        embedded: Float[Array, "B r c D"],
        points: Float[Array, "B N P 2"],
        point_labels: Int[Array, "B N P"],
        mask: Float[Array, "B N h w"] | None = None,
        train: bool = False,
    ) -> tuple[Float[Array, "B N M h w"], Float[Array, "B N M"]]:
        """The logits of M = `masks` + 1 masks of each object and their predicted IoUs, float32.

        The first mask is for an object that several prompts describe; the others are for a single one, which may mean
        several things. A mask has 4 x 4 places for each patch.

        Args:
          embedded: of `embed_image`.
          points: row and column of the points of each of N objects, as fractions of the image's height and width.
          point_labels: 1 for a point on the object, 0 for one off it; 2 and 3 for the upper left and the lower right
            corner of its box; -1 for none (published weights were trained with one of these where there is no box);
            -100 for a place that nothing attends to.
          mask: the logits of an earlier prediction of each object. If None, there is none.
        """
        batch, rows, columns, width = embedded.shape
        objects = points.shape[1]
        grid = Grid(rows, columns)
        tokens, added = self.prompts(points, point_labels, mask, grid, train)
        added = jnp.broadcast_to(added, (batch, objects, rows * columns, width))
        image = embedded[:, None] + added.reshape(batch, objects, rows, columns, width).astype(embedded.dtype)

        def together(x: jax.Array) -> jax.Array:
            return x.reshape(batch * objects, *x.shape[2:])

        prompt_mask = together(point_labels != IGNORED)
        outputs = self.decoder(together(image), together(tokens), prompt_mask, self.positions_of(grid), train)
        logits, ious = (x.reshape(batch, objects, *x.shape[1:]) for x in outputs)
        return logits, ious

    @nn.nowrap
    def positions_of(self, grid: Grid) -> Float[Array, "1 L D"]:
        """The features of the patches' centres."""
        rows, columns = ((jnp.arange(size) + 0.5) / size for size in grid[:2])
        centres = jnp.stack(jnp.meshgrid(rows, columns, indexing="ij"), -1).reshape(1, -1, 2)
        return self.fourier(centres, self.width)
