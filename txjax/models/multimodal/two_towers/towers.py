"""The towers that other families don't have: CLIP's and SigLIP's of images, SigLIP's of texts."""

import dataclasses
from typing import Any

import flax.linen as nn
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from txjax.models.transformer import Transformer
from txjax.models.vision.vit import ViT
from txjax.models.vision.vit.prefix_tokens import ClassToken
from txjax.nn import (
    MLP,
    Embed,
    Encoded,
    Head,
    Init,
    LayerContext,
    Learned,
    Linear,
    Mask,
    Normal,
    Positions,
    StackInputs,
    patchify,
)
from txjax.types import PyTree, config_field


class CLIPImageTower(ViT, kw_only=True):
    """CLIP's ViT (Radford et al. 2021, 3.2.1): a norm before the layers, patches without bias.

    What leaves the layers is not normalised: `NormedPool(FirstToken())` of a head has that norm, `norm_final`. Without
    a head no output depends on it, and it is there, so that such a tower has the parameters of one that pools.

    Parameters: those of `ViT`, and `norm_stem`.
    """

    mlp: MLP = dataclasses.field(default_factory=lambda: MLP(activation="quick_gelu"))

    @nn.nowrap
    def patch_projection(self) -> Linear:
        return Linear((self.width,), ("embed",), ("pixels",), False, kernel_init=self.kernel_init, name="patch_embed")

    @nn.nowrap
    def begin(self, x: PyTree, inputs: StackInputs) -> tuple[PyTree, LayerContext]:
        return super().begin(self.norm.clone(parent=self, name="norm_stem").normalise(x, inputs.train), inputs)

    @nn.nowrap
    def end(self, x: PyTree, train: bool) -> Float[Array, "B L D"]:
        if self.head is None and self.is_initializing():
            self.norm.clone(parent=self, name="norm_final").normalise(x[..., : self.width], train)
        return x


class SigLIPImageTower(ViT, kw_only=True):
    """SigLIP's ViT (Zhai et al. 2023, 4.1; Alabdulmohsin et al. 2023): no class token, so `ProbePool()` reads patches.

    Pixels behind the last whole patch of a row or of a column are in none: of 384 x 384 pixels, patches of 14 x 14
    read 378 x 378.

    Parameters: those of `ViT`.
    """

    class_token: ClassToken | None = None
    mlp: MLP = dataclasses.field(default_factory=lambda: MLP(activation="gelu_tanh"))

    @nn.nowrap
    def cut(self, image: Float[Array, "B H W C"]) -> Float[Array, "B N pixels"]:
        height, width = (side // self.patch * self.patch for side in image.shape[1:3])
        return patchify(image[:, :height, :width], self.patch)


class FixedLengthText(Transformer, kw_only=True):
    """SigLIP's encoder of texts (Zhai et al. 2023): every token reads all others, also what is padding.

    All texts have the length that it was trained on, and the features of the last place, which in most texts is
    padding, stand for the text: `LastToken()`.

    Parameters: `embed`, `positions`, `layers`, `norm_final`, and those of the head.

    Attributes:
      vocab: size of the vocabulary, V.
      head: from the features to the output. If None, the output is `Encoded`.
    """

    vocab: int = config_field(at_least=1)
    positions: Positions = dataclasses.field(default_factory=Learned)
    mlp: MLP = dataclasses.field(default_factory=lambda: MLP(activation="gelu_tanh"))
    initial: Init = dataclasses.field(default_factory=Normal)
    head: Head | None = None

    @nn.compact
    def __call__(
        self, tokens: Int[Array, "B L"], segments: Int[Array, "B L"] | None = None, train: bool = False
    ) -> Any:
        """The head's output.

        Args:
          segments: ignored.
        """
        embed = Embed(self.vocab, self.width, name="embed")
        positions = jnp.arange(tokens.shape[1], dtype=jnp.int32)[None]
        x = self.positions.add(embed(tokens, self.dtype), positions)
        x = self.end(self.layers(x, StackInputs(positions, positions, Mask(), train)), train)
        return self.apply_head(Encoded(x, embedding=embed.embedding), self.head, train)
