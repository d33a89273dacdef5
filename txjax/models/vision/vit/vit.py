"""The Vision Transformer, and the encoder of image patches that others share with it."""

import dataclasses
from typing import Any

import flax.linen as nn
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from txjax.errors import UserError
from txjax.models.model import Model
from txjax.models.transformer import Transformer
from txjax.models.vision.vit.prefix_tokens import ClassToken, token_positions
from txjax.nn import (
    Encoded,
    Grid,
    Head,
    HeadContext,
    Init,
    Learned,
    Linear,
    Mask,
    Normal,
    Positions,
    StackInputs,
    Xavier,
    patchify,
)
from txjax.nn.parameters.init import KernelInit
from txjax.types import config_field


class PatchEncoder(Transformer, kw_only=True):
    """The encoder of an image's patches, or of patches of a stem's feature map (Dosovitskiy et al. 2021, 3.1).

    Parameters: `stem` if there is one, `patch_embed`, `positions`, `pool` (the class token's), `layers`, `norm_final`.
    Sows `features` [B D]: what a classifier reads; with other heads, the class token, or else the mean over patches.

    Attributes:
      patch: side P of a patch in pixels; with a stem, in places of its map: 1 projects each place.
      stem: an encoder of images with `head=None`, such as a `ConvNet` or a `Swin`: its features on their grid are what
        is cut into patches. If None, the pixels are.
      image_size: height and width that all images must have; () = any.
      class_token: the token before the patches. If None, there is none, and heads read the patches alone.
    """

    patch: int = config_field(at_least=1)
    stem: Model | None = None
    image_size: tuple[int, ...] = ()
    class_token: ClassToken | None = dataclasses.field(default_factory=ClassToken)
    positions: Positions = dataclasses.field(default_factory=Learned)
    initial: Init = dataclasses.field(default_factory=Xavier)

    @nn.nowrap
    def head_context(self, train: bool) -> HeadContext:
        """What heads get from the model: as in the paper, no dropout, and kernels of one standard deviation."""
        normal = KernelInit(Normal(), self.layer_scaling())
        return dataclasses.replace(super().head_context(train), kernel_init=normal, dropout=0.0)

    @property
    def takes_pixels(self) -> bool:
        """Whether an adapter's pixels are added to the image here, and not where it enters the stem."""
        return self.stem is None

    @nn.nowrap
    def prefix(self) -> int:
        """The number of tokens before the patches."""
        return 0 if self.class_token is None else self.class_token.count

    @nn.nowrap
    def grid(self, height: int, width: int) -> Grid:
        """The order of the tokens of an image, or of a stem's map, of this size."""
        return Grid(height // self.patch, width // self.patch, self.prefix())

    @nn.nowrap
    def cut(self, image: Float[Array, "B H W C"]) -> Float[Array, "B N pixels"]:
        """The patches of an image, or of a stem's map, row by row."""
        return patchify(image, self.patch)

    @nn.nowrap
    def encode(
        self,
        image: Float[Array, "B H W C"],
        keep: Int[Array, "B M"] | None,
        train: bool,
        segments: Int[Array, "B L"] | None = None,
    ) -> Encoded:
        """The features of the class token, then of the patches with the indices `keep` (all if None).

        Args:
          segments: of all tokens; 0 is padding. If None, none is.
        """
        if self.image_size and image.shape[1:3] != tuple(self.image_size):
            got = f"{image.shape[1]} x {image.shape[2]} pixels"
            raise UserError("config.model.image_size", "the images' height and width, or ()", self.image_size, hint=got)
        image = self.mapped(image, train)
        patches = self.cut(image).astype(self.dtype)
        if keep is not None:
            patches = jnp.take_along_axis(patches, keep[:, :, None], axis=1)
        grid = self.grid(*image.shape[1:3])
        positions = token_positions(grid, jnp.arange(patches.shape[1], dtype=jnp.int32)[None] if keep is None else keep)
        x = self.patch_projection()(patches)
        if self.class_token is not None:
            x = self.class_token.clone(parent=self, name="pool")(x)
        mask = Mask.within(segments)
        inputs = StackInputs(positions, positions, mask, train, grid=grid if keep is None else None)
        x = self.layers(self.positions.add(x, positions, grid), inputs)
        return Encoded(self.end(x, train), segments, grid=grid)

    @nn.nowrap
    def patch_projection(self) -> Linear:
        """From a patch's pixels to the width. Parameters `patch_embed`."""
        return Linear((self.width,), ("embed",), in_axes=("pixels",), kernel_init=self.kernel_init, name="patch_embed")

    @nn.nowrap
    def mapped(self, image: Float[Array, "B H W C"], train: bool) -> Float[Array, "B h w D"]:
        """The stem's feature map; the image itself without a stem."""
        if self.stem is None:
            return image
        encoded = self.stem(image, train=train)
        if not isinstance(encoded, Encoded) or encoded.grid is None or encoded.prefix:
            expected = "an encoder of images with head=None and no class token"
            raise UserError("config.model.stem", expected, type(self.stem).__name__)
        return encoded.features.reshape(len(image), encoded.grid.rows, encoded.grid.columns, -1)


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
        return self.apply_head(self.encode(image, keep, train), self.head, train)
