"""A tokenizer of images: a convolutional autoencoder through a codebook."""

import dataclasses

import flax.linen as nn
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from txjax.errors import UserError
from txjax.models.model import Model
from txjax.models.vision.vq_tokenizer.conv_autoencoder import ConvDecoder, ConvEncoder
from txjax.nn import Codebook, GroupNorm, Norm, Quantised
from txjax.parametrization import Scaling
from txjax.types import config_field


class VQTokenizer(Model, kw_only=True):
    """VQGAN's autoencoder without its attention layers, as MaskGIT has it (Chang et al. 2022; Esser et al. 2021).

    The encoder halves rows and columns len(multipliers) - 1 times; the nearest of `codes` vectors replaces each
    feature, and its number is the token there. The decoder reads these vectors. Gradients pass straight through the
    replacement (van den Oord et al. 2017, 3.2).

    Parameters: `encoder`, `codebook/codes` [K E], `decoder`. Sows the mean of the encoder's features as `features`.

    Attributes:
      width: channels of the first stage.
      depth: blocks of a stage.
      codes: number K of codes.
      multipliers: channels of each stage over `width`, from the pixels on.
      code_size: size E of a code. It doesn't grow with the width under a parametrization.
      channels: of the images.
      norm: a template for all norms.
    """

    width: int = config_field(at_least=1)
    depth: int = config_field(at_least=1)
    codes: int = config_field(at_least=1)
    multipliers: tuple[int, ...] = (1, 1, 2, 2, 4)
    code_size: int = config_field(256, at_least=1)
    channels: int = config_field(3, at_least=1)
    norm: Norm = dataclasses.field(default_factory=lambda: GroupNorm(eps=1e-6))

    def setup(self) -> None:
        scaling = self.layer_scaling()
        if scaling.alpha:
            got = type(self.parametrization).__name__
            raise UserError("config.model.parametrization", "MuP() or Standard() for a VQTokenizer", got)
        widths = tuple(self.width * multiplier for multiplier in self.multipliers)
        norm = self.norm.clone(parent=None, name=None)
        self.encoder = ConvEncoder(widths, self.depth, self.code_size, norm, self.kernel_init)
        self.codebook = Codebook(self.codes, self.code_size)
        self.decoder = ConvDecoder(widths, self.depth, self.channels, norm, self.kernel_init)

    def __call__(self, image: Float[Array, "B H W C"], train: bool = False) -> Quantised:
        """The image decoded from its tokens, and what its loss needs.

        Raises:
          UserError: images of other channels, or of sides that can't be halved so often.
        """
        features = self.features(image, train)
        tokens = self.codebook.nearest(features)
        codes = self.codebook(tokens)
        self.sow("intermediates", "features", features.mean((1, 2)))
        straight = features + jax.lax.stop_gradient(codes - features)
        return Quantised(self.painted(straight, train), features, codes, tokens)

    def encode(self, image: Float[Array, "B H W C"], train: bool = False) -> Int[Array, "B h w"]:
        """The tokens of images, int32. Raises UserError as the whole model does."""
        return self.codebook.nearest(self.features(image, train))

    def decode(self, tokens: Int[Array, "B h w"], train: bool = False) -> Float[Array, "B H W C"]:
        """The images of tokens, float32."""
        return self.painted(self.codebook(tokens), train)

    def features(self, image: Float[Array, "B H W C"], train: bool) -> Float[Array, "B h w E"]:
        """The encoder's features, float32."""
        if image.shape[-1] != self.channels:
            raise UserError("config.model.channels", f"{image.shape[-1]}, as the images have", self.channels)
        self.grid(*image.shape[1:3])
        return self.encoder(image.astype(self.dtype), train).astype(jnp.float32)

    def painted(self, codes: Float[Array, "B h w E"], train: bool) -> Float[Array, "B H W C"]:
        """The decoder's images, float32."""
        return self.decoder(codes.astype(self.dtype), train).astype(jnp.float32)

    @nn.nowrap
    def grid(self, height: int, width: int) -> tuple[int, int]:
        """The rows and columns of the tokens of an image. Raises UserError if they are not whole."""
        side = 2 ** (len(self.multipliers) - 1)
        if height % side or width % side:
            expected = f"at most {1 + halvings(height, width)} numbers for images of {height} x {width} pixels"
            raise UserError("config.model.multipliers", expected, self.multipliers)
        return height // side, width // side

    @nn.nowrap
    def scaling(self) -> Scaling | None:
        """The scaling by the width; there are no heads, whose size counts as 1."""
        return self.parametrization.scaling(self.width, 1, self.depth)


def halvings(*sides: int) -> int:
    """How often all sides are divisible by 2."""
    return min((side & -side).bit_length() - 1 for side in sides)
