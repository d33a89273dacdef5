"""MaxViT."""

import dataclasses
from typing import Any

import flax.linen as nn
from jaxtyping import Array, Float

from txjax.errors import UserError
from txjax.models.hierarchical import Hierarchical, StageLayers
from txjax.models.vision.max_vit.max_vit_block import MaxViTBlock
from txjax.models.vision.max_vit.mb_conv import MBConv
from txjax.nn import (
    ACTIVATIONS,
    MLP,
    BatchNorm,
    Block,
    Conv,
    Downsampling,
    Grid,
    GridAttention,
    LayerNorm,
    Mixer,
    Norm,
    Stack,
    StackInputs,
    WindowAttention,
    padded_image,
    quantized,
    set_model_fields,
)
from txjax.types import config_field


class MaxViTStem(Downsampling):
    """Two convolutions of pixels, then the `MBConv` of the first stage (Tu et al. 2022, 3.3 and table 1).

    Parameters: `conv_1`, `norm`, `conv_2`, `mb_conv`.

    Attributes:
      channels: of the convolutions.
      stride: of the first one.
      activation: between them, one of `nn.ACTIVATIONS`.
      mb_conv: set by the model.
    """

    channels: int = config_field(64, at_least=1)
    stride: int = config_field(2, at_least=1)
    activation: str = config_field("gelu_tanh", choices=tuple(ACTIVATIONS))
    mb_conv: MBConv | None = None

    @nn.compact
    def __call__(self, x: Float[Array, "B L C"], grid: Grid, train: bool) -> tuple[Float[Array, "B l D"], Grid]:
        assert self.in_axis and self.kernel_init and self.mb_conv
        strides = self.stride, self.stride
        first = Conv(
            (self.channels,), in_axis=self.in_axis, strides=strides, kernel_init=self.kernel_init, name="conv_1"
        )
        y = ACTIVATIONS[self.activation](self.normalise(first(padded_image(x, grid, 1)), train))
        y = Conv((self.channels,), kernel_init=self.kernel_init, name="conv_2")(y)
        return self.mb_conv(y.reshape(len(y), -1, self.channels), Grid(*y.shape[1:3]), train)


class MaxViTStage(StageLayers, kw_only=True):
    """The layers of a stage: the first one without an `MBConv`, which the entrance of the stage has.

    Parameters: `positions`, `first`, and `layers` if there are more than one.

    Attributes:
      conv: of each layer but the first.
      grid_attention: a template.
    """

    conv: MBConv
    grid_attention: GridAttention

    def layers(self, x: Float[Array, "B L D"], inputs: StackInputs) -> Float[Array, "B L D"]:
        x, context = self.begin(x, inputs)
        assert self.stack.fractions is not None
        first, last = self.stack.fractions
        second = first + (last - first) / max(self.depth - 1, 1)
        conv = self.conv.clone(parent=None, name=None, _deep_clone=True)
        with quantized(self.quantize):
            x = self.part("first", 1, (first, first), None)(x, context)
            if self.depth > 1:
                x = self.part("layers", self.depth - 1, (second, last), conv)(x, context)
            return x

    @nn.nowrap
    def part(self, name: str, depth: int, fractions: tuple[float, float], conv: MBConv | None) -> Stack:
        """A stack of some of the layers, which have this `MBConv` or none."""
        block = self.blocks().clone(conv=conv)
        stack = set_model_fields(self.stack, "config.model.stack", block=block, depth=depth)
        return stack.clone(parent=self, name=name, fractions=fractions)

    @nn.nowrap
    def blocks(self) -> Block:
        """A layer without an `MBConv`."""
        block = super().blocks()
        if not isinstance(block, MaxViTBlock):
            hint = "layers of one kind, which has both attentions"
            raise UserError("config.model.block", "MaxViTBlock() with one attention", type(block).__name__, hint=hint)
        more = ("heads", "kv_heads", "kernel_init")
        fields = {name: getattr(block.mixer, name) for name in more}
        return block.clone(
            grid_attention=set_model_fields(self.grid_attention, "config.model.grid_attention", **fields),
            grid_mlp=set_model_fields(self.mlp, "config.model.mlp", **{name: fields[name] for name in more[2:]}),
        )


class MaxViT(Hierarchical, kw_only=True):
    """MaxViT (Tu et al. 2022): convolutions, attention in windows, and attention over a sparse grid, in every layer.

    MaxViT(stages=(Stage(64, 2, 2), Stage(128, 2, 4), Stage(256, 5, 8), Stage(512, 2, 16)),
           head=Classes(1000, Pooler(pool=NormedPool())))  # MaxViT-T

    The first layer of a stage has an `MBConv` with strides, which is its entrance. Images may be of any size: a grid
    that the side of windows doesn't divide is padded (`WindowAttention`).

    Parameters: those of `Hierarchical`, where a stage has its first layer in `stages_0/first`, and of the head.
    Collection "batch_stats".

    Attributes:
      downsample: the `MBConv` of all layers; its strides are those of a stage's first layer.
      grid_attention: after the one in windows, `mixer`.
      batch_norm: of the stem and of each `MBConv`.
    """

    stem: Downsampling = dataclasses.field(default_factory=MaxViTStem)
    downsample: Downsampling = dataclasses.field(default_factory=MBConv)
    mixer: Mixer | tuple[Mixer, ...] = dataclasses.field(default_factory=WindowAttention)
    grid_attention: GridAttention = dataclasses.field(default_factory=GridAttention)
    norm: Norm = dataclasses.field(default_factory=lambda: LayerNorm(eps=1e-5))
    batch_norm: BatchNorm = dataclasses.field(default_factory=lambda: BatchNorm(momentum=0.99, eps=1e-3))
    mlp: MLP = dataclasses.field(default_factory=lambda: MLP(activation="gelu_tanh"))
    block: Block = dataclasses.field(default_factory=MaxViTBlock)

    @nn.nowrap
    def entrance_fields(self, number: int) -> dict[str, Any]:
        depths = [stage.depth for stage in self.stages]
        drop_path = self.block.drop_path * sum(depths[:number]) / max(sum(depths) - 1, 1)
        if not isinstance(self.stem, MaxViTStem):
            raise UserError("config.model.stem", "MaxViTStem()", type(self.stem).__name__)
        more: dict[str, Any] = {"drop_path": drop_path} if number else {"mb_conv": self.conv_of(0, drop_path)}
        return super().entrance_fields(number) | {"norm": self.batch_norm.clone(parent=None)} | more

    @nn.nowrap
    def conv_of(self, number: int, drop_path: float) -> MBConv:
        """The `MBConv` of a stage's layers."""
        if not isinstance(self.downsample, MBConv):
            raise UserError("config.model.downsample", "MBConv()", type(self.downsample).__name__)
        more = {"norm": self.batch_norm.clone(parent=None), "in_axis": "width", "drop_path": drop_path}
        return set_model_fields(self.downsample, "config.model.downsample", **super().entrance_fields(number) | more)

    @nn.nowrap
    def stage_layers(self, number: int, **fields: Any) -> StageLayers:
        conv = self.conv_of(number, self.block.drop_path).clone(stride=1)
        return MaxViTStage(**fields, conv=conv, grid_attention=self.grid_attention.clone(parent=None))
