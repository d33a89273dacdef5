"""A masked autoencoder of images."""

import dataclasses

import flax.linen as nn
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from txjax.errors import UserError
from txjax.models.transformer import SubTransformer
from txjax.models.vision.vit.prefix_tokens import token_positions
from txjax.models.vision.vit.vit import PatchEncoder
from txjax.nn import Grid, Linear, Positions, Sinusoidal2D, StackInputs, align, parameter
from txjax.types import config_field


class PatchDecoder(SubTransformer, kw_only=True):
    """The decoder of MAE: from the features of the visible patches to the pixels of all.

    Parameters: `embed`, `mask_token`, `layers`, `norm_final`, `out`.

    Attributes:
      pixels: values in a patch.
      patches: patches in an image.
      grid: their order.
    """

    pixels: int
    patches: int
    grid: Grid

    @nn.compact
    def __call__(
        self, x: Float[Array, "B L E"], keep: Int[Array, "B M"] | None, train: bool
    ) -> Float[Array, "B {self.patches} {self.pixels}"]:
        """The pixels of every patch, float32. Patches that are not in `keep` are mask tokens. If None, all are kept."""
        linear = Linear((self.width,), ("embed",), in_axes=("width",), kernel_init=self.kernel_init, name="embed")
        x = linear(x)
        token = parameter(self, "mask_token", nn.initializers.normal(0.02), (self.width,), ("embed",))
        if keep is not None:
            hidden = jnp.broadcast_to(align(token, x), (x.shape[0], self.patches, self.width))
            patches = jax.vmap(lambda all, where, rows: all.at[where].set(rows))(hidden, keep, x[:, self.grid.prefix :])
            x = jnp.concatenate([x[:, : self.grid.prefix], patches], 1)
        positions = token_positions(self.grid, jnp.arange(self.patches, dtype=jnp.int32)[None])
        x = self.positions.add(x, positions, self.grid)
        x = self.layers(x, StackInputs(positions, positions, train=train, grid=self.grid))
        x = self.end(x, train)[:, self.grid.prefix :]
        return Linear((self.pixels,), ("pixels",), kernel_init=self.kernel_init, name="out")(x, jnp.float32)


class MAE(PatchEncoder, kw_only=True):
    """The masked autoencoder (He et al. 2022): a large encoder of the visible patches, a small decoder of all.

    Parameters: those of `PatchEncoder`, which a `ViT` can be initialised from, and `decoder`. Sows the pooled features
    of the visible patches, [B D], as `features` in the collection "intermediates".

    Attributes:
      decoder_width, decoder_depth, decoder_heads: sizes of the decoder; its other fields are the encoder's.
    """

    positions: Positions = dataclasses.field(default_factory=Sinusoidal2D)
    decoder_width: int = config_field(512, at_least=1)
    decoder_depth: int = config_field(8, at_least=1)
    decoder_heads: int = config_field(16, at_least=1)

    @nn.compact
    def __call__(
        self, image: Float[Array, "B H W C"], keep: Int[Array, "B M"] | None = None, train: bool = False
    ) -> Float[Array, "B N {self.patch}*{self.patch}*C"]:
        """The predicted pixels of every patch, float32, in the order of `nn.patchify`.

        Args:
          keep: indices of the visible patches. If None, all are visible.
        """
        if self.stem is not None:
            hint = "a stem would see the hidden patches"
            raise UserError("config.model.stem", "None for an MAE", type(self.stem).__name__, hint=hint)
        encoded = self.encode(image, keep, train)
        self.apply_head(encoded, None, train)
        assert encoded.grid is not None
        decoder = PatchDecoder(
            width=self.decoder_width,
            depth=self.decoder_depth,
            heads=self.decoder_heads,
            pixels=self.patch**2 * image.shape[3],
            patches=image.shape[1] * image.shape[2] // self.patch**2,
            grid=encoded.grid,
            name="decoder",
            whole=self.scaling(),
            **self.parts(),
        )
        return decoder(encoded.features, keep, train)
