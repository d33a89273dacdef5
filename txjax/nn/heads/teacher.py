"""A model whose outputs are another model's targets."""

from typing import Any

import flax.linen as nn
import jax

from txjax.nn.parameters.parameter_order import begin_call


class Teacher(nn.Module):
    """A frozen model: its variables are below `teacher`, and nothing that it returns has a gradient.

    Attributes:
      teacher: the model.
    """

    teacher: nn.Module

    @nn.compact
    def __call__(self, **inputs: Any) -> Any:
        """The model's output, without gradients."""
        begin_call()
        return jax.lax.stop_gradient(self.teacher(**inputs))
