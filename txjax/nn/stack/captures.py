"""What layers compute inside, captured in any model: their inputs, and the weights of attention."""

import contextlib
from collections.abc import Iterator
from typing import Any

import flax.linen as nn
import jax

from txjax.nn.attention.attention import Attention
from txjax.nn.attention.mixer import MAPS
from txjax.nn.kernels.reference_attention import attention_weights
from txjax.nn.parameters.interception import is_call_of
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
        captures = is_call_of(context, Block.__call__) and not block.is_initializing()
        if not captures or not isinstance(x, jax.Array):
            return call(*args, **options)
        x = block.perturb("stream", x, LAYER_INPUTS)
        _sow(block, "intermediates", "layer_input", x)
        return call(x, *args[1:], **options)

    with nn.intercept_methods(intercept):
        yield


@contextlib.contextmanager
def attention_maps() -> Iterator[None]:
    """Within it, every `Attention` of a model sows its weights [B H L S] as `weights` in the collection `MAPS`.

    They are float32. Mixers of other kinds, which alone know their weights, sow them where the collection is mutable.
    """

    def intercept(call: Any, args: tuple, options: dict[str, Any], context: nn.module.InterceptorContext) -> Any:
        if is_call_of(context, Attention.attend) and not context.module.is_initializing():
            query, key, _, mask, bias, _ = args
            _sow(context.module, MAPS, "weights", attention_weights(query, key, mask, bias))
        return call(*args, **options)

    with nn.intercept_methods(intercept):
        yield


def _sow(module: nn.Module, collection: str, name: str, x: jax.Array) -> None:
    """Keeps the value of the last call alone."""
    module.sow(collection, name, x, init_fn=lambda: None, reduce_fn=lambda _, new: new)
