"""Layer-wise learning rate decay, for fine-tuning a pretrained model."""

import dataclasses
import re
from collections.abc import Sequence

import numpy as np

from txjax.axes import KIND, STACKED, Axes
from txjax.errors import UserError
from txjax.types import config_field


@dataclasses.dataclass
class LayerDecay:
    """Factors on the learning rate that fall from the head to the embeddings.

    With d layers, the factor is decay^(d - i) for layer i (from 0), decay^(d + 1) for the inputs before the layers,
    and 1 for the rest, heads and the final norm: the numbering of BEiT (Bao et al. 2022) and MAE (He et al.
    2022). It differs from BEiT's in that a relative bias that all layers share counts as an input, not as the last
    layer, and from ELECTRA's (Clark et al. 2020) in that the last layer is one step below the head, not two.

    The layers of several stacks are numbered in the order in which the forward pass meets them, an encoder's before
    its decoder's. What lies between two stacks, such as the merging of patches, has the factor of the last layer
    before it, as in SimMIM (Xie et al. 2022). Layers that share their parameters are one.

    Attributes:
      decay: the factor from one layer to the one below.
    """

    decay: float = config_field(0.75, above=0, at_most=1, traced=True)

    def factor(self, below: np.ndarray) -> np.ndarray:
        """The factor of a parameter so many steps below the head, float32."""
        return (self.decay**below).astype(np.float32)


def steps_below_head(
    calls: Sequence[Sequence[str]], axes: dict[str, Axes], shapes: dict[str, tuple[int, ...]]
) -> dict[str, np.ndarray]:
    """How many layers each parameter is below the head, broadcastable to it: one number for each layer of a stack.

    Args:
      calls: the parameters' paths in the order of the forward pass, for each call of the model.
      axes, shapes: of all parameters, by path.

    Raises:
      UserError: the model has no stack of layers.
    """
    stacks: dict[str, range] = {}  # the numbers of each stack's layers, from 1
    kinds: dict[str, int] = {}  # the layers of each stack's periods
    for path in axes:
        kinds[stack_path(path)] = max(kinds.get(stack_path(path), 1), kind_number(path) + 1)
    last = 0
    calls = [[path for path in call if path in axes] for call in calls]
    for path in (path for call in calls for path in call):
        if STACKED in axes[path] and stack_path(path) not in stacks:
            layers = shapes[path][axes[path].index(STACKED)] * kinds[stack_path(path)]
            first = last + 1
            last = last + layers
            stacks[stack_path(path)] = range(first, last + 1)
    if not stacks:
        raise UserError("config.optimizer.layer_decay", "a model with a stack of layers", "none")
    numbers = {path: np.arange(last + 1, last + 2) for path in axes}
    for call in reversed(calls):  # the first call of a parameter counts
        before = 0
        stacked = [i for i, path in enumerate(call) if STACKED in axes[path]]
        for path in call[: stacked[-1] + 1 if stacked else 0]:
            if STACKED in axes[path]:
                numbers[path] = np.asarray(stacks[stack_path(path)][kind_number(path) :: kinds[stack_path(path)]])
                before = stacks[stack_path(path)][-1]
            else:
                numbers[path] = np.arange(before, before + 1)
    return {
        path: (last + 1 - numbers[path]).reshape([-1 if name == STACKED else 1 for name in names])
        for path, names in axes.items()
    }


def kind_number(path: str) -> int:
    """The number of a parameter's layer in its period; 0 without periods."""
    layer_kind = re.search(rf"(^|/){KIND}(\d+)/", path)
    return int(layer_kind[2]) if layer_kind else 0


def stack_path(path: str) -> str:
    """The path of the module that has a parameter's stack of layers, with a slash at its end; "" for the model."""
    return path.partition(f"{STACKED}/")[0]
