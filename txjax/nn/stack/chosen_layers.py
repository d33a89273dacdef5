"""The layers whose streams a stack returns."""

from typing import Any

from txjax.errors import UserError


def layer_numbers(stack: Any) -> tuple[int, ...]:
    """The layers of `Stack.outputs`, from 0 on; by default the last. Raises UserError if there are none of these."""
    outputs = (-1,) if stack.outputs is None else tuple(stack.outputs)
    if not outputs or not all(-stack.depth <= layer < stack.depth for layer in outputs):
        raise UserError("config.model.stack.outputs", f"numbers of the {stack.depth} layers", stack.outputs)
    return tuple(layer % stack.depth for layer in outputs)


def ends_early(stack: Any) -> bool:
    """Whether the last layers are not run."""
    return max(layer_numbers(stack)) + 1 < stack.depth
