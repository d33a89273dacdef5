"""What layers compute inside, captured in any model: their inputs, and the weights of attention."""

import contextlib
from collections.abc import Iterator
from typing import Any

import flax.linen as nn
import jax
import jax.numpy as jnp

from txjax.nn.attention.attention import Attention
from txjax.nn.attention.linear_attention import LinearAttention
from txjax.nn.attention.mixer import MAPS
from txjax.nn.attention.running_sums import attention_by_pairs
from txjax.nn.attention.window_attention import WindowAttention
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
        block = context.module
        x = args[0] if args else None
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
    """Within it, attention sows its weights, float32 [B H L S], as `weights` in the collection `MAPS`.

    `Attention` and `LinearAttention` do, and modules with a method `states_and_weights`, whose weights have one head.
    `WindowAttention` sows the numbers of its windows' tokens [W S] as `windows` too; -1 is padding.
    """

    def intercept(call: Any, args: tuple, options: dict[str, Any], context: nn.module.InterceptorContext) -> Any:
        module = context.module
        output = call(*args, **options)
        if module.is_initializing():
            return output
        if is_call_of(context, Attention.attend):
            query, key, _, mask, bias, _ = args
            _sow(module, MAPS, "weights", attention_weights(query, key, mask, bias))
        elif is_call_of(context, LinearAttention.attend):
            query, key, _, mask, _ = args
            allowed = mask.dense(query.shape[1], query.shape[1])
            _sow(module, MAPS, "weights", attention_by_pairs(query, key, allowed, module.eps))
        elif is_call_of(context, WindowAttention.outputs):
            layer = args[1]
            prompt = ((0, 0), (layer.mask.prefix, 0))
            _sow(module, MAPS, "windows", jnp.pad(module.windows(layer).tokens(), prompt, constant_values=-1))
        elif context.method_name == "states_and_weights":
            _, (_, _, weights) = output
            _sow(module, MAPS, "weights", weights[:, None])
        return output

    with nn.intercept_methods(intercept):
        yield


def _sow(module: nn.Module, collection: str, name: str, x: jax.Array) -> None:
    """Keeps the value of the last call alone."""
    module.sow(collection, name, x, init_fn=lambda: None, reduce_fn=lambda _, new: new)
