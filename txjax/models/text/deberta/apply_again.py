"""One more pass through a layer of a stack, with the layer's own parameters."""

import flax.linen as nn
import jax
from flax.core import meta

from txjax.nn.attention.layer_context import LayerContext
from txjax.nn.parameters.active_adapter import applied_at
from txjax.nn.parameters.remat import remat_policy
from txjax.nn.stack.stack import Stack
from txjax.types import PyTree

_STACKED = {nn.PARTITION_NAME: "layers"}


def apply_again(stack: Stack, layer: int, x: PyTree, context: LayerContext) -> PyTree:
    """The stream after one more pass through the layer of this number, of a stack that was called before.

    It has no parameters of its own: gradients of both passes add up. It is rematerialised as the stack's layers are.
    During initialisation, `x`.

    Args:
      layer: negative numbers count from the last layer.
    """
    assert stack.depth is not None
    if stack.is_initializing():
        return x
    kinds = stack.block if isinstance(stack.block, tuple) else (stack.block,)
    layer %= stack.depth
    block = kinds[layer % len(kinds)]
    assert block is not None
    params = stack.variables["params"]["block"]
    if not isinstance(params, tuple):
        params = meta.remove_axis(params, 0, _STACKED)
        row = layer * (stack.groups or stack.depth) // stack.depth
        params = jax.tree.map(lambda a: a[row], params)
    else:
        params = params[layer]
    assert stack.scope is not None
    rngs = {name: stack.make_rng(name) for name in stack.scope.rngs if name != "params"}
    fraction = stack.depth_fractions(stack.depth)[layer]

    def call(block: nn.Module) -> PyTree:
        return block(x, context, fraction)

    def apply(params: PyTree) -> PyTree:
        with applied_at((*stack.path, "block")):
            return nn.apply(call, block.clone(parent=None, name="block", _deep_clone=True))(
                {"params": params}, rngs=rngs
            )

    policy = remat_policy(stack.remat)
    return apply(params) if policy is None else jax.checkpoint(apply, policy=policy)(params)
