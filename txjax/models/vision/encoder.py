"""The encoder of image patches that ViT and MAE share."""

import dataclasses
from typing import Any, ClassVar

import flax.linen as nn
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from txjax.models.transformer import Transformer
from txjax.nn import Grid, Init, Learned, Linear, Normal, Positions, Window, Xavier, align, parameter, patchify
from txjax.parametrization import Scaling
from txjax.types import UserError, config_field


class Pool(nn.Module):
    """Base of pooling from an image's tokens to one vector.

    Attributes:
      tokens: number of tokens that `prepend` adds.
    """

    tokens: ClassVar[int] = 0

    def prepend(self, x: Float[Array, "B N D"]) -> Float[Array, "B L D"]:
        """The encoder's input: the pool's tokens, then the patches."""
        return x

    def __call__(self, x: Float[Array, "B L D"], initial: Init, scaling: Scaling) -> Float[Array, "B D"]:
        """One vector of the encoder's output; new kernels are drawn by `initial`."""
        raise NotImplementedError


class MeanPool(Pool):
    """The mean of all patches (Zhai et al. 2022)."""

    def __call__(self, x: Float[Array, "B L D"], initial: Init, scaling: Scaling) -> Float[Array, "B D"]:
        return x.mean(1)


class ClassToken(Pool):
    """A learned token before the patches (Dosovitskiy et al. 2021). Parameter `token` [D]."""

    tokens: ClassVar[int] = 1

    @nn.compact
    def prepend(self, x: Float[Array, "B N D"]) -> Float[Array, "B L D"]:
        token = parameter(self, "token", nn.initializers.normal(0.02), x.shape[-1:], ("embed",))
        return jnp.concatenate([jnp.broadcast_to(align(token, x), (x.shape[0], 1, x.shape[-1])), x], 1)

    def __call__(self, x: Float[Array, "B L D"], initial: Init, scaling: Scaling) -> Float[Array, "B D"]:
        return x[:, 0]


class PooledToken(ClassToken):
    """The class token through a dense layer and tanh, as in BERT. Parameters `token` [D], `linear` [D D]."""

    @nn.compact
    def __call__(self, x: Float[Array, "B L D"], initial: Init, scaling: Scaling) -> Float[Array, "B D"]:
        linear = Linear(x.shape[-1:], ("width",), initial=initial, scaling=scaling, name="linear")
        return jnp.tanh(linear(x[:, 0]))


def token_positions(grid: Grid, patches: Int[Array, "B N"]) -> Int[Array, "B L"]:
    """The positions of the tokens before the patches and of the patches with these numbers."""
    own = jnp.broadcast_to(jnp.arange(grid.prefix, dtype=jnp.int32), (patches.shape[0], grid.prefix))
    return jnp.concatenate([own, patches + grid.prefix], 1)


class PatchEncoder(Transformer, kw_only=True):
    """The encoder of an image's patches, with a class token if `pool` has one.

    Parameters: `patch_embed`, `positions`, `pool`, `layers`, `norm_final`.

    Attributes:
      patch: side P of a patch in pixels.
      pool: tokens added to the patches, and pooling of the result to one vector.
      image_size: height and width that all images must have; () = any.
    """

    patch: int = config_field(at_least=1)
    image_size: tuple[int, ...] = ()
    pool: Pool = dataclasses.field(default_factory=ClassToken)
    positions: Positions = dataclasses.field(default_factory=Learned)
    initial: Init = dataclasses.field(default_factory=Xavier)

    @nn.nowrap
    def grid(self, image: Float[Array, "B H W C"]) -> Grid:
        """The order of this image's tokens."""
        rows, columns = (side // self.patch for side in image.shape[1:3])
        return Grid(rows, columns, self.pool.tokens)

    @nn.nowrap
    def pooled(self, x: Float[Array, "B L D"]) -> Float[Array, "B D"]:
        """The output of `encode`, pooled to one vector."""
        return self.pool(x, Normal(), self.layer_scaling())

    @nn.nowrap
    def encode(
        self, image: Float[Array, "B H W C"], keep: Int[Array, "B M"] | None, train: bool
    ) -> Float[Array, "B L D"]:
        """The features of the pool's tokens, then of the patches with the indices `keep` (all if None)."""
        if self.image_size and image.shape[1:3] != tuple(self.image_size):
            got = f"{image.shape[1]} x {image.shape[2]} pixels"
            raise UserError("config.model.image_size", "the images' height and width, or ()", self.image_size, hint=got)
        patches = patchify(image, self.patch).astype(self.dtype)
        if keep is not None:
            patches = jnp.take_along_axis(patches, keep[:, :, None], axis=1)
        drawn: dict[str, Any] = {"initial": self.initial, "scaling": self.layer_scaling()}
        embed = Linear((self.width,), ("embed",), in_axes=("pixels",), **drawn, name="patch_embed")
        grid = self.grid(image)
        positions = token_positions(grid, jnp.arange(patches.shape[1], dtype=jnp.int32)[None] if keep is None else keep)
        x = self.positions.add(self.pool.prepend(embed(patches)), positions, grid)
        return self.layers(x, Window(positions, positions), train)
