"""The base of hierarchical models of images: stages, each with fewer and wider tokens than the one before."""

import dataclasses
from typing import Any, ClassVar

import flax.linen as nn
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from txjax.errors import UserError
from txjax.models.layer_templates import LayerTemplates
from txjax.models.transformer import SubTransformer
from txjax.nn import (
    Downsampling,
    Encoded,
    Grid,
    Head,
    HeadContext,
    Init,
    Normal,
    PatchEmbedding,
    PatchMerging,
    StackInputs,
    set_model_fields,
)
from txjax.nn.parameters.init import KernelInit
from txjax.parametrization import Scaling, head_size
from txjax.types import config_field


@dataclasses.dataclass
class Stage:
    """The sizes of one stage of a hierarchical model.

    Attributes:
      width: size D of its residual stream.
      depth: blocks, the downsampling's own among them.
      heads: query heads; mixers without heads ignore them.
    """

    width: int = config_field(at_least=1)
    depth: int = config_field(at_least=1)
    heads: int = config_field(1, at_least=1)


class StageLayers(SubTransformer, kw_only=True):
    """The layers of a stage, without a final norm. Parameters `positions`, `layers`."""

    @nn.compact
    def __call__(self, x: Float[Array, "B L D"], grid: Grid, train: bool) -> Float[Array, "B L D"]:
        """The residual stream after the stage."""
        positions = jnp.arange(x.shape[1], dtype=jnp.int32)[None]
        inputs = StackInputs(positions, positions, train=train, grid=grid)
        return self.layers(self.positions.add(x, positions, grid), inputs)


class Hierarchical(LayerTemplates, kw_only=True):
    """Images through a stem and stages of layers, between which tokens are merged.

    The layers of all stages have the same parts, unless a family overrides `parts_of`. Stochastic depth
    (`block.drop_path`) rises over the layers of all stages. Under muP all widths scale by the ratio of the first
    stage's to the base.

    Parameters: for each stage `downsample_0` (the stem), `downsample_1`, ... and `stages_0/layers`, `stages_1/layers`,
    ...; `norm_final` if the blocks have one, and those of the head. Sows `features` [B D].

    Attributes:
      stages: from the first to the last.
      stem: from an image's pixels to the first stage.
      downsample: from each stage to the next.
      head: from the last stage's features to the output; it finds those of all stages in `Encoded.stages`. If None, the
        output is `Encoded`.
    """

    takes_pixels: ClassVar[bool] = True

    stages: tuple[Stage, ...] = config_field()
    stem: Downsampling = dataclasses.field(default_factory=PatchEmbedding)
    downsample: Downsampling = dataclasses.field(default_factory=PatchMerging)
    head: Head | None = None
    initial: Init = dataclasses.field(default_factory=Normal)

    @nn.compact
    def __call__(self, image: Float[Array, "B H W C"], train: bool = False) -> Any:
        """The head's output."""
        return self.apply_head(self.encode(image, train), self.head, train)

    @nn.nowrap
    def encode(self, image: Float[Array, "B H W C"], train: bool) -> Encoded:
        """The normalised features of the last stage, and in `stages` those of each, as they are before the norm."""
        if not self.stages:
            raise UserError("config.model.stages", "at least one Stage", self.stages)
        grid = Grid(*image.shape[1:3])
        x = image.astype(self.dtype).reshape(image.shape[0], -1, image.shape[3])
        stages = []
        for number in range(len(self.stages)):
            x, grid = self.enter(number, x, grid, train)
            if (layers := self.layers_of(number)).depth:
                x = layers(x, grid, train)
            stages.append(Encoded(x, grid=grid))
        if self.block.final_norm:
            x = self.norm.clone(parent=self, name="norm_final").normalise(x, train)
        return Encoded(x, grid=grid, stages=tuple(stages))

    @nn.nowrap
    def enter(self, number: int, x: Float[Array, "B L C"], grid: Grid, train: bool) -> tuple[jax.Array, Grid]:
        """The tokens [B l D] of a stage before its layers, and their grid."""
        return self.entrance_of(number)(x, grid, train)

    @nn.nowrap
    def entrance_of(self, number: int) -> Downsampling:
        """What leads to a stage: the stem to the first one."""
        name = "downsample" if number else "stem"
        fields = self.entrance_fields(number)
        entrance = set_model_fields(self.template_of(number), f"config.model.{name}", **fields)
        return entrance.clone(parent=self, name=f"downsample_{number}")

    @nn.nowrap
    def entrance_fields(self, number: int) -> dict[str, Any]:
        """What the model sets in the entrance of a stage."""
        fields = {"kernel_init": self.kernel_init, "norm": self.norm.clone(parent=None)}
        return fields | {"width": self.stages[number].width, "in_axis": "width" if number else "pixels"}

    @nn.nowrap
    def template_of(self, number: int) -> Downsampling:
        """The template of what leads to a stage."""
        return self.downsample if number else self.stem

    @nn.nowrap
    def layers_of(self, number: int) -> StageLayers:
        """The layers of a stage that its entrance leaves; their depth may be 0."""
        stage = self.stages[number]
        parts = self.parts_of(number)
        parts["stack"] = set_model_fields(parts["stack"], "config.model.stack", fractions=self.fractions_of(number))
        depth = stage.depth - self.template_of(number).layers
        sizes: dict[str, Any] = {"width": stage.width, "depth": depth, "heads": stage.heads}
        return self.stage_layers(number, **sizes, **parts, whole=self.scaling(), name=f"stages_{number}")

    @nn.nowrap
    def stage_layers(self, number: int, **fields: Any) -> StageLayers:
        """The layers of a stage with these fields; a family whose stages have other parts overrides this."""
        return StageLayers(**fields)

    @nn.nowrap
    def parts_of(self, number: int) -> dict[str, Any]:
        """The templates of a stage's layers; a family whose stages differ overrides this."""
        return self.parts()

    @nn.nowrap
    def fractions_of(self, number: int) -> tuple[float, float]:
        """The fractions of the model's depth at the first and at the last layer of a stage's stack."""
        depths = [stage.depth for stage in self.stages]
        first = sum(depths[:number]) + self.template_of(number).layers
        last = sum(depths[: number + 1]) - 1
        return first / max(sum(depths) - 1, 1), last / max(sum(depths) - 1, 1)

    @nn.nowrap
    def head_context(self, train: bool) -> HeadContext:
        """What heads get from the model: as in a ViT, no dropout, and kernels of one standard deviation."""
        normal = KernelInit(Normal(), self.layer_scaling())
        return dataclasses.replace(super().head_context(train), kernel_init=normal, dropout=0.0)

    @nn.nowrap
    def scaling(self) -> Scaling | None:
        """The scaling by the width of the first stage; the other widths are taken to grow with it."""
        first = self.stages[0]
        depth = sum(stage.depth for stage in self.stages)
        scaling = self.parametrization.scaling(first.width, head_size(first.width, first.heads), depth)
        if scaling is not None and scaling.alpha:
            got = type(self.parametrization).__name__
            raise UserError("config.model.parametrization", "MuP() or Standard() for a model of several stages", got)
        return scaling
