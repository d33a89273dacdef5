"""From the features of an image to the width of a language model."""

import flax.linen as nn
from jaxtyping import Array, Float

from txjax.nn import ACTIVATIONS, KernelInit, Linear
from txjax.types import config_field


class Projector(nn.Module):
    """Base of projectors of the features of patches."""

    def __call__(self, x: Float[Array, "B N E"], width: int, kernel_init: KernelInit) -> Float[Array, "B N D"]:
        """One vector of the width for each patch. `kernel_init`: the model's."""
        raise NotImplementedError


class LinearProjector(Projector):
    """One linear layer (Liu et al. 2023a, "Visual Instruction Tuning", equation 1). Parameters `out` [E D]."""

    @nn.compact
    def __call__(self, x: Float[Array, "B N E"], width: int, kernel_init: KernelInit) -> Float[Array, "B N D"]:
        return Linear((width,), ("embed",), ("width",), kernel_init=kernel_init, name="out")(x)


class MLPProjector(Projector):
    """Two layers of the width (Liu et al. 2023b, "Improved Baselines with Visual Instruction Tuning", section 3.3).

    Parameters `hidden` [E D], `out` [D D].

    Attributes:
      activation: between them.
      use_bias: whether both have a bias.
    """

    activation: str = config_field("gelu", choices=tuple(ACTIVATIONS))
    use_bias: bool = True

    @nn.compact
    def __call__(self, x: Float[Array, "B N E"], width: int, kernel_init: KernelInit) -> Float[Array, "B N D"]:
        hidden = Linear((width,), ("mlp",), ("width",), self.use_bias, kernel_init=kernel_init, name="hidden")(x)
        activated = ACTIVATIONS[self.activation](hidden)
        return Linear((width,), ("embed",), ("mlp",), self.use_bias, kernel_init=kernel_init, name="out")(activated)
