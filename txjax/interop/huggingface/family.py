"""The interface of a family of Hugging Face's: config.json, tensors, forward pass. One file each, `hf_*.py`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from txjax.errors import UserError, near_misses
from txjax.interop.huggingface.options import Options
from txjax.interop.huggingface.rules import Flat, Names, Rule
from txjax.interop.huggingface.weights import Tensor
from txjax.models.transformer import Transformer
from txjax.nn.attention.attention import Attention
from txjax.types import PyTree

Inputs = Mapping[str, Any]


class Family:
    """The models of one `model_type`.

    Attributes:
      model_type: the name in config.json.
      architectures: the supported architectures; the last one has the fewest heads.
      txjax_model: our models in Markdown, for docs/interop.md.
      inputs: the input names of `forward`.
      outputs: the names of its outputs, of whatever architecture.
      not_written: fields of the model, all of which have one key of config.json together with another field.
      state: the collections of a model besides its parameters.
      general: whether it writes only the models that no other family matches.
      unless_given: entries of config.json that the model does not decide, written unless `save` is given others.
    """

    model_type: str
    architectures: tuple[str, ...]
    txjax_model: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    not_written: tuple[str, ...] = ()
    state: tuple[str, ...] = ()
    general: bool = False
    unless_given: Mapping[str, Any] = {}

    def matches(self, model: Any) -> bool:
        """Whether this family writes a model unless another one is chosen, by its class and characteristic parts."""
        raise NotImplementedError

    def represents(self, model: Any) -> bool:
        """Whether its files may describe a model, by its class; `matches` is true of one family of several like it."""
        return self.matches(model)

    def model(self, options: Options, tensors: Mapping[str, Tensor]) -> Any:
        """Returns the txjax model. Raises UserError with the key of an option that txjax can't represent.

        Args:
          tensors: the tensors of the folder, for what they and not config.json decide.
        """
        raise NotImplementedError

    def config(self, model: Any, flat: Flat) -> dict[str, Any]:
        """Returns the entries of config.json for a txjax model with these arrays, including `architectures`."""
        raise NotImplementedError

    def names(self, options: Options) -> Names:
        """Returns the names in the files besides the tensors of the rules."""
        raise NotImplementedError

    def rules(self, model: Any) -> list[Rule]:
        """Returns the mapping between their tensors and our arrays."""
        raise NotImplementedError

    def constants(self, model: Any) -> dict[str, np.ndarray]:
        """Returns their tensors that are constants and so no parameters of ours."""
        return {}

    def example(self, model: Any, options: Options) -> dict[str, jax.ShapeDtypeStruct]:
        """Returns arguments for `model.init`."""
        raise NotImplementedError

    def forward(self, model: Any, variables: PyTree, inputs: Inputs) -> dict[str, jax.Array]:
        """Returns the outputs under their names. `inputs` are jax arrays or plain numbers under their names."""
        raise NotImplementedError


def arrays(family: Family, inputs: Inputs) -> dict[str, Any]:
    """The inputs as jax arrays, integers as int32; settings (plain numbers) are unchanged.

    Raises:
      UserError: an unknown input.
    """
    for name in inputs:
        if name not in family.inputs:
            hint = f"{family.model_type} takes " + ", ".join(family.inputs)
            raise UserError(name, "a known input", near=near_misses(name, family.inputs), hint=hint)

    def convert(value: Any) -> Any:
        if isinstance(value, bool | int | float):
            return value
        array = value if isinstance(value, jax.Array) else jnp.asarray(np.asarray(value))
        return array.astype(jnp.float32 if jnp.issubdtype(array.dtype, jnp.floating) else jnp.int32)

    return {name: convert(value) for name, value in inputs.items() if value is not None}


def select_inputs(inputs: Inputs, names: Mapping[str, str], required: int = 1) -> dict[str, Any]:
    """The inputs under our names; `names` maps theirs to ours. The first `required` of them are required."""
    for name in list(names)[:required]:
        if name not in inputs:
            raise UserError(name, "among the inputs", sorted(inputs))
    return {ours: inputs[theirs] for theirs, ours in names.items() if theirs in inputs}


def apply_with_intermediates(
    model: Any, variables: PyTree, watch: Sequence[str], *args: Any, **kwargs: Any
) -> tuple[Any, Any]:
    """Returns the model's output, and the outputs of the submodules with these names, by path."""

    def is_watched(module: Any, method: str) -> bool:
        return method == "__call__" and module.name in watch

    output, state = model.apply(variables, *args, **kwargs, capture_intermediates=is_watched, mutable=["intermediates"])

    def strip(node: Any) -> Any:
        """Replaces modules by their outputs; other intermediates (numbers that the model sows) are dropped."""
        if "__call__" in node:
            return node["__call__"][0]
        return {name: strip(inner) for name, inner in node.items() if isinstance(inner, Mapping)}

    return output, strip(state["intermediates"])


def only_attention(model: Transformer) -> Attention:
    """The attention of all layers. Raises UserError if there are several, or another mixer."""
    if not isinstance(model.mixer, Attention):
        got = ", ".join(type(mixer).__name__ for mixer in model.mixers())
        raise UserError("config.model.mixer", "one Attention, the same in all layers", got)
    return model.mixer
