"""RepLKNet: convolutions with large kernels."""

import dataclasses
from typing import Any

import flax.linen as nn
import numpy as np
from flax import traverse_util

from txjax.errors import UserError
from txjax.models.hierarchical import Hierarchical
from txjax.models.vision.rep_lk_net.large_kernels import (
    LargeKernelMixer,
    LargeKernelStem,
    MergedKernel,
    NormedMLP,
    ParallelKernels,
    Transition,
)
from txjax.nn import MLP, BatchNorm, Downsampling, Mixer, Norm
from txjax.types import PyTree


class RepLKNet(Hierarchical, kw_only=True):
    """RepLKNet (Ding et al. 2022): a ConvNet whose kernels are as large as Swin's windows and larger.

    RepLKNet(stages=(Stage(128, 2), Stage(256, 2), Stage(512, 18), Stage(1024, 2)), sides=(31, 29, 27, 13),
             head=Classes(1000, MeanTokens()))  # RepLKNet-31B

    In training each large kernel has a small one in parallel (`ParallelKernels`); `merged` makes one kernel of both
    (`txjax merge` for a run). In training the batch's statistics are used: `BatchNorm(group=...)` in `norm`,
    `mixer.norm` and `mlp.norm` for microbatches.

    Parameters: those of `Hierarchical` and of the head.

    Attributes:
      sides: of the large kernels, one a stage.
    """

    sides: tuple[int, ...] = (31, 29, 27, 13)
    stem: Downsampling = dataclasses.field(default_factory=LargeKernelStem)
    downsample: Downsampling = dataclasses.field(default_factory=Transition)
    norm: Norm = dataclasses.field(default_factory=BatchNorm)
    mixer: Mixer | tuple[Mixer, ...] = dataclasses.field(default_factory=LargeKernelMixer)
    mlp: MLP = dataclasses.field(default_factory=NormedMLP)

    @nn.nowrap
    def parts_of(self, number: int) -> dict[str, Any]:
        """The templates of a stage's layers. Raises UserError unless there is an odd kernel for each stage."""
        if len(self.sides) != len(self.stages) or not all(side % 2 for side in self.sides):
            expected = f"{len(self.stages)} odd numbers, one a stage"
            raise UserError("config.model.sides", expected, self.sides)
        return super().parts_of(number) | {"mixer": self._with_kernel(side=self.sides[number])}

    @nn.nowrap
    def _with_kernel(self, **fields: Any) -> Mixer:
        """The mixer with a kernel of these fields."""
        mixer = self.mixer
        if not isinstance(mixer, LargeKernelMixer):
            raise UserError("config.model.mixer", "LargeKernelMixer()", type(mixer).__name__)
        return mixer.clone(parent=None, name=None, kernel=mixer.kernel.clone(parent=None, name=None, **fields))

    @nn.nowrap
    def merged(self, variables: PyTree) -> tuple["RepLKNet", PyTree]:
        """The model with one kernel in place of two, and its variables, whose outputs in evaluation are the same.

        With y = (x * W - mean) scale / s + bias of each branch, s the root of variance + eps, the kernel is the sum of
        W scale / s, the small one in the middle of the large one, and the bias that of bias - mean scale / s (Ding et
        al. 2021, RepVGG, 3.3).
        """
        mixer = self.mixer
        if not isinstance(mixer, LargeKernelMixer) or not isinstance(mixer.kernel, ParallelKernels):
            got = "a model without them"
            raise UserError("config.model.mixer.kernel", "ParallelKernels(), to be merged", got)
        eps = getattr(mixer.norm, "eps", 0.0)
        params, stats = (traverse_util.flatten_dict(variables[name], sep="/") for name in ("params", "batch_stats"))
        for path in [path for path in params if path.endswith("/large/conv/kernel")]:
            here = path.removesuffix("/large/conv/kernel")
            branches = [name for name in ("large", "small") if f"{here}/{name}/conv/kernel" in params]
            kernels, biases = zip(*(_folded(params, stats, f"{here}/{name}", eps) for name in branches), strict=True)
            params[f"{here}/conv/kernel"] = sum(_padded(kernel, kernels[0].shape[-4]) for kernel in kernels)
            params[f"{here}/conv/bias"] = sum(biases)
        model = self.clone(mixer=mixer.clone(parent=None, name=None, kernel=MergedKernel()))
        nested = {"params": params, "batch_stats": stats}
        return model, variables | {name: traverse_util.unflatten_dict(flat, sep="/") for name, flat in nested.items()}


def _folded(params: dict[str, Any], stats: dict[str, Any], branch: str, eps: float) -> tuple[Any, Any]:
    """Kernel [layers side side 1 F] and bias [layers F] of a convolution and its norm, which are taken out."""
    kernel = np.asarray(params.pop(f"{branch}/conv/kernel"))
    scale, bias = (np.asarray(params.pop(f"{branch}/norm/{name}")) for name in ("scale", "bias"))
    mean, var = (np.asarray(stats.pop(f"{branch}/norm/{name}")) for name in ("mean", "var"))
    factor = scale / np.sqrt(var + eps)
    return kernel * factor[..., None, None, None, :], bias - mean * factor


def _padded(kernel: Any, side: int) -> Any:
    """A kernel [layers s s 1 F] in the middle of one of side x side."""
    more = (side - kernel.shape[-4]) // 2
    return np.pad(kernel, ((0, 0), (more, more), (more, more), (0, 0), (0, 0)))
