"""The layer of a Conformer: attention and a convolution between two half MLPs."""

import dataclasses
from typing import ClassVar

import flax.linen as nn
from jaxtyping import Array, Float

from txjax.models.audio.conformer.conv_module import ConvModule
from txjax.nn import LayerContext, Mixer, PreNorm, set_model_fields
from txjax.nn.stack.block import Layer, Normalise, Stream


class ConformerBlock(PreNorm):
    """norm(x + MLP / 2 + attention + convolution + MLP / 2), each branch normalised (Gulati et al. 2020, equation 1).

    Parameters: `mlp_first`, `attention`, `convolution`, `mlp`, a norm of each (`norm_mlp_first`, ...), and `norm_out`.
    The two MLPs have one template.

    Attributes:
      conv: the branch after attention: `ConvModule()`, or another mixer.
    """

    takes_prompts: ClassVar[bool] = False  # a convolution sees what is beside a token
    final_norm: ClassVar[bool] = False
    conv: Mixer = dataclasses.field(default_factory=ConvModule)

    @property
    def branches(self) -> int:
        return super().branches + 2

    @nn.nowrap
    def layers(self, context: LayerContext) -> dict[str, tuple[Layer, LayerContext]]:
        assert self.mlp
        layers = super().layers(context)
        last_mlp = layers.pop("mlp")
        first_mlp = self.mlp.clone(parent=self, name="mlp_first")
        conv = set_model_fields(self.conv, "config.model.block.conv", kernel_init=self.mlp.kernel_init)
        convolution = conv.clone(parent=self, name="convolution")
        return {"mlp_first": (first_mlp, context), **layers, "convolution": (convolution, context), "mlp": last_mlp}

    @nn.nowrap
    def leave(self, name: str, x: Stream, y: Stream, norm: Normalise) -> Stream:
        return super().leave(name, x, 0.5 * y if name.startswith("mlp") else y, norm)

    @nn.compact
    def __call__(
        self, x: Float[Array, "B L D"], context: LayerContext, depth_fraction: float | Float[Array, ""] = 1.0
    ) -> Float[Array, "B L D"]:
        assert self.norm
        x = super().__call__(x, context, depth_fraction)
        return self.norm.clone(parent=self, name="norm_out").normalise(x, context.train)


class ConformerBlockWithFinal(ConformerBlock):
    """`ConformerBlock` in a stack that one more norm follows, as in Wav2Vec2-Conformer (fairseq; Wang et al. 2020)."""

    final_norm: ClassVar[bool] = True
