"""Layer-wise learning rate decay, for fine-tuning a pretrained model."""

import dataclasses
import re

import numpy as np

from txjax.axes import STACKED, Axes
from txjax.types import UserError, config_field, near_misses

FIELD = "config.optimizer.layer_decay"


@dataclasses.dataclass
class LayerDecay:
    """Factors on the learning rate that fall from the head to the embeddings.

    With d layers, the factor is decay^(d - i) for layer i (from 0), decay^(d + 1) for the inputs before the layers,
    and 1 for the rest, heads and the final norm: the numbering of BEiT (Bao et al. 2022) and MAE (He et al.
    2022). It differs from BEiT's in that a relative bias that all layers share counts as an input, not as the last
    layer, and from ELECTRA's (Clark et al. 2020) in that the last layer is one step below the head, not two.

    Attributes:
      decay: the factor from one layer to the one below.
      inputs: a regular expression that matches the whole path of each parameter before the layers.
    """

    decay: float = config_field(0.75, above=0, at_most=1, traced=True)
    inputs: str = r"(patch_embed|embed|embed_types|norm_embed|positions|pool/token)(/.*)?"

    def depth(self, axes: dict[str, Axes], shapes: dict[str, tuple[int, ...]]) -> int:
        """The number of layers, from all parameters' logical axes and shapes by path.

        Raises:
          UserError: the model has no stack of layers or several, or `inputs` matches nothing or isn't a pattern.
        """
        stacks = {}
        for path, names in axes.items():
            if STACKED in names:
                stacks[path.partition(f"{STACKED}/")[0] + STACKED] = shapes[path][names.index(STACKED)]
        if len(stacks) != 1:
            raise UserError(FIELD, "a model with one stack of layers", ", ".join(stacks) or "none")
        if not any(self._is_input(path) for path in axes):
            words = re.sub(r"[^\w/]+", "", self.inputs)
            raise UserError(
                f"{FIELD}.inputs", "a pattern that matches a parameter", self.inputs, near_misses(words, axes)
            )
        return next(iter(stacks.values()))

    def factor(self, path: str, axes: Axes, depth: int) -> np.ndarray:
        """The factor of a parameter, float32, broadcastable to it: one for each layer if it is stacked."""
        shape = [depth if name == STACKED else 1 for name in axes]
        outside = np.full(1, depth + 1 if self._is_input(path) else 0)
        below = depth - np.arange(depth) if STACKED in axes else outside
        return (self.decay**below).astype(np.float32).reshape(shape)

    def _is_input(self, path: str) -> bool:
        try:
            return re.fullmatch(self.inputs, path) is not None
        except re.error as error:
            raise UserError(
                f"{FIELD}.inputs", "a regular expression", self.inputs, hint=f"it is invalid: {error}"
            ) from None
