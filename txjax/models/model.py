"""The base of all models: what does not depend on how a model is built."""

import dataclasses
from typing import Any

import flax.linen as nn

from txjax.nn import Init
from txjax.parametrization import Parametrization, Scaling, Standard
from txjax.types import config_field


class Model(nn.Module, kw_only=True):
    """The fields of every model.

    Attributes:
      initial: the initialiser of kernels, at the parametrization's base size if it has one.
      parametrization: how other numbers scale with the sizes: not at all (`Standard`), or so that a learning rate
        transfers to any width (`MuP`) and depth (`DepthMuP`, `CompleteP`).
      dtype: of the activations. Parameters are float32; norms, softmax and the model's output are computed in float32.
    """

    initial: Init = dataclasses.field(default_factory=Init)
    parametrization: Parametrization = dataclasses.field(default_factory=Standard)
    dtype: str = config_field("float32", choices=("float32", "bfloat16"))

    @nn.nowrap
    def scaling(self) -> Scaling | None:
        """The scaling by the model's sizes, for the optimizer; None if learning rates don't depend on them."""
        return None

    @nn.nowrap
    def layer_scaling(self) -> Scaling:
        """The scaling by the model's sizes, for its layers: the identity if nothing depends on them."""
        return self.scaling() or Scaling()

    @nn.nowrap
    def for_task(self, task: str) -> Any:
        """The model as one of several tasks calls it (`objectives.Several`): under the same paths, all its parameters.

        A model whose tasks have heads of their own overrides this; here all tasks call it alike.
        """
        return self
