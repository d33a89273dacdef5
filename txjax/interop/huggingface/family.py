"""What a family of models is: its config.json, its tensors, its forward pass. One file each; `folder.py` lists them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from txjax.interop.huggingface.options import Options
from txjax.interop.huggingface.rules import Flat, Names, Rule
from txjax.interop.huggingface.weights import Tensor
from txjax.types import PyTree, UserError, near_misses

Inputs = Mapping[str, Any]


class Family:
    """The models of one `model_type`.

    Attributes:
      model_type: its name in config.json.
      architectures: those that we read.
      inputs: names that `forward` knows.
    """

    model_type: str
    architectures: tuple[str, ...]
    inputs: tuple[str, ...]

    def holds(self, model: Any) -> bool:
        """Whether a model of ours is of this family, by its class and its most telling parts."""
        raise NotImplementedError

    def model(self, options: Options, tensors: Mapping[str, Tensor]) -> Any:
        """Our model. Raises UserError for an option that it can't represent, by its key.

        Args:
          tensors: what the folder holds, where that and not config.json decides.
        """
        raise NotImplementedError

    def config(self, model: Any, flat: Flat) -> dict[str, Any]:
        """What config.json says of our model with these arrays, `architectures` among it."""
        raise NotImplementedError

    def names(self, options: Options) -> Names:
        """What the files hold besides the tensors of the rules."""
        raise NotImplementedError

    def rules(self, model: Any) -> list[Rule]:
        """Where each of our arrays lies."""
        raise NotImplementedError

    def constants(self, model: Any) -> dict[str, np.ndarray]:
        """Tensors of theirs that are no parameters of ours, since they always have these numbers."""
        return {}

    def example(self, model: Any, options: Options) -> dict[str, jax.ShapeDtypeStruct]:
        """Arguments that the model can be initialised with."""
        raise NotImplementedError

    def forward(self, model: Any, variables: PyTree, inputs: Inputs) -> dict[str, jax.Array]:
        """Their outputs of their inputs, which are jax arrays or plain numbers here."""
        raise NotImplementedError


def arrays(family: Family, inputs: Inputs) -> dict[str, Any]:
    """The inputs as jax arrays, whole numbers as int32; settings (plain numbers) stay.

    Raises:
      UserError: one that the family doesn't know.
    """
    for name in inputs:
        if name not in family.inputs:
            hint = f"{family.model_type} takes " + ", ".join(family.inputs)
            raise UserError(name, "an input that txjax knows", near=near_misses(name, family.inputs), hint=hint)

    def convert(value: Any) -> Any:
        if isinstance(value, bool | int | float):
            return value
        array = value if isinstance(value, jax.Array) else jnp.asarray(np.asarray(value))
        return array.astype(jnp.float32 if jnp.issubdtype(array.dtype, jnp.floating) else jnp.int32)

    return {name: convert(value) for name, value in inputs.items() if value is not None}


def given(inputs: Inputs, names: Mapping[str, str], required: int = 1) -> dict[str, Any]:
    """The inputs under our names; `names` maps theirs to ours. The first `required` of them must be there."""
    for name in list(names)[:required]:
        if name not in inputs:
            raise UserError(name, "among the inputs", sorted(inputs))
    return {ours: inputs[theirs] for theirs, ours in names.items() if theirs in inputs}


def watched(model: Any, variables: PyTree, watch: Sequence[str], *args: Any, **kwargs: Any) -> tuple[Any, Any]:
    """What the model gives, and the outputs of its submodules with these names, by path."""

    def wanted(module: Any, method: str) -> bool:
        return method == "__call__" and module.name in watch

    output, state = model.apply(variables, *args, **kwargs, capture_intermediates=wanted, mutable=["intermediates"])

    def strip(node: Any) -> Any:
        """Modules lead to outputs; what else is there (numbers that the model sows) is left out."""
        if "__call__" in node:
            return node["__call__"][0]
        return {name: strip(inner) for name, inner in node.items() if isinstance(inner, Mapping)}

    return output, strip(state["intermediates"])
