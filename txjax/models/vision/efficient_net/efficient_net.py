"""EfficientNet."""

import dataclasses
from typing import Any

import flax.linen as nn
from jaxtyping import Array, Float

from txjax.errors import UserError
from txjax.models.hierarchical import Hierarchical, Stage
from txjax.models.vision.efficient_net.inverted_residuals import (
    InvertedDownsampling,
    InvertedResidual,
    InvertedStem,
    PlainResidual,
    Sides,
    strided,
)
from txjax.nn import (
    BatchNorm,
    Block,
    Downsampling,
    Encoded,
    HeadContext,
    Init,
    Norm,
    NormedConv,
    padded_image,
    set_model_fields,
)
from txjax.types import config_field


@dataclasses.dataclass
class InvertedStage(Stage):
    """The sizes of one stage of an `EfficientNet`.

    Attributes:
      side: of the depthwise kernels, an odd number.
      ratio: the channels of the depthwise convolutions over those of their layer's input.
      stride: of the first layer.
    """

    side: int = config_field(3, at_least=1)
    ratio: int = config_field(6, at_least=1)
    stride: int = config_field(2, at_least=1)


def scaled_width(channels: int, factor: float, divisor: int = 8) -> int:
    """The multiple of the divisor nearest to channels * factor; the next one if that is less than nine tenths of it."""
    scaled = channels * factor
    nearest = max(divisor, int(scaled + divisor / 2) // divisor * divisor)
    return nearest + divisor if nearest < 0.9 * scaled else nearest


class EfficientNet(Hierarchical, kw_only=True):
    """EfficientNet (Tan and Le 2019): inverted bottlenecks, whose widths, depths and resolution are scaled together.

    EfficientNet(stages=(InvertedStage(16, 1, ratio=1, stride=1), InvertedStage(24, 2), InvertedStage(40, 2, side=5),
                         InvertedStage(80, 3), InvertedStage(112, 3, side=5, stride=1), InvertedStage(192, 4, side=5),
                         InvertedStage(320, 1, stride=1)),
                 head=Classes(1000, MeanTokens()))  # EfficientNet-B0

    The first layer of a stage has no residual and is never dropped by stochastic depth (`block.drop_path`). In training
    the batch's statistics are used: `norm.group` for microbatches.

    Parameters: those of `Hierarchical`, `top/conv`, `top/norm` and those of the head. Collection "batch_stats".

    Attributes:
      features: channels of the last convolution, of 1 x 1, which the head reads.
      resolution: rows and columns of the images for which strided convolutions are padded as by "SAME"; others get the
        same zeros, as in Hugging Face's files. If None, the padding is that of each image itself, as in the authors'
        code.
      head_dropout: of the features that a classifier reads.
    """

    stages: tuple[InvertedStage, ...] = config_field()
    features: int = config_field(1280, at_least=1)
    resolution: int | None = config_field(None, at_least=1)
    head_dropout: float = config_field(0.0, at_least=0, below=1)
    stem: Downsampling = dataclasses.field(default_factory=InvertedStem)
    downsample: Downsampling = dataclasses.field(default_factory=InvertedDownsampling)
    norm: Norm = dataclasses.field(default_factory=lambda: BatchNorm(momentum=0.99, eps=1e-3))
    mixer: InvertedResidual = dataclasses.field(default_factory=InvertedResidual)
    block: Block = dataclasses.field(default_factory=PlainResidual)
    initial: Init = dataclasses.field(default_factory=Init)

    @nn.nowrap
    def encode(self, image: Float[Array, "B H W C"], train: bool) -> Encoded:
        """The features after the last convolution, and in `stages` those of each stage."""
        encoded = super().encode(image, train)
        assert encoded.grid is not None
        fields: dict[str, Any] = {"norm": self.norm, "activation": self.mixer.activation}
        top = NormedConv(self.features, side=1, **fields, kernel_init=self.kernel_init, name="top")
        x = top(padded_image(encoded.features, encoded.grid, 1), train)
        return dataclasses.replace(encoded, features=x.reshape(len(x), -1, self.features))

    @nn.nowrap
    def unit_of(self, number: int) -> InvertedResidual:
        """The template of a stage's layers. Raises UserError for an even kernel, and a stage of another class."""
        stage = self.stages[number]
        if not isinstance(stage, InvertedStage):
            raise UserError(f"config.model.stages[{number}]", "an InvertedStage", type(stage).__name__)
        if stage.side % 2 == 0:
            raise UserError(f"config.model.stages[{number}].side", "an odd number", stage.side)
        fields: dict[str, Any] = {"side": stage.side, "ratio": stage.ratio, "norm": self.norm.clone(parent=None)}
        return set_model_fields(self.mixer, "config.model.mixer", **fields)

    @nn.nowrap
    def sides_of(self, number: int) -> Sides | None:
        """Rows and columns before a stage, of images of the model's resolution; None if it has none."""
        if self.resolution is None:
            return None
        stem = self.stem
        assert isinstance(stem, InvertedStem)
        sides = self.resolution, self.resolution
        strides = [stem.conv_stride, *(stage.stride for stage in self.stages)]
        for stride in strides[: number + 1] if number else []:
            sides = strided(sides, stride)
        return sides

    @nn.nowrap
    def entrance_fields(self, number: int) -> dict[str, Any]:
        name, kind = ("downsample", InvertedDownsampling) if number else ("stem", InvertedStem)
        template = self.template_of(number)
        if not isinstance(template, kind):
            raise UserError(f"config.model.{name}", f"{kind.__name__}()", type(template).__name__)
        unit = self.unit_of(number)
        fields = {"stride": self.stages[number].stride, "unit": unit, "sides": self.sides_of(number)}
        return super().entrance_fields(number) | fields

    @nn.nowrap
    def parts_of(self, number: int) -> dict[str, Any]:
        return super().parts_of(number) | {"mixer": self.unit_of(number)}

    @nn.nowrap
    def head_context(self, train: bool) -> HeadContext:
        return dataclasses.replace(super().head_context(train), dropout=self.head_dropout)
