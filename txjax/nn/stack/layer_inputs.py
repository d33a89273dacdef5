"""The inputs of layers, and gradients with respect to them, in any model and without a change of it."""

import contextlib
from collections.abc import Iterator
from typing import Any

import flax.linen as nn
import jax

from txjax.nn.stack.block import Block

LAYER_INPUTS = "layer_inputs"  # the collection of what is added to the stream before each layer


@contextlib.contextmanager
def layer_inputs() -> Iterator[None]:
    """Within it, every `Block` of a model that is applied adds `stream` to its input x, and sows x as
    `layer_input` in the collection "intermediates".

    `stream`, of the collection `LAYER_INPUTS`, has the shape of x, [layers B L D] for a stack; where the collection is
    mutable and empty it is made of zeros. So the gradient with respect to it is the one of each layer's input. A model
    without blocks, and blocks that carry several streams, have none.
    """

    def intercept(call: Any, args: tuple, options: dict[str, Any], context: nn.module.InterceptorContext) -> Any:
        block, x = context.module, args[0] if args else None
        called = context.method_name == "__call__" and isinstance(block, Block) and not block.is_initializing()
        if not called or not isinstance(x, jax.Array):
            return call(*args, **options)
        x = block.perturb("stream", x, LAYER_INPUTS)
        block.sow("intermediates", "layer_input", x, init_fn=lambda: None, reduce_fn=lambda _, new: new)
        return call(x, *args[1:], **options)

    with nn.intercept_methods(intercept):
        yield
