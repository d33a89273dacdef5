"""Layers of several kinds that take turns, layers that share parameters, and layers with arrays of their own."""

from collections.abc import Callable, Iterable
from typing import Any

import flax.linen as nn
import jax
import jax.numpy as jnp
from flax import errors, traverse_util
from flax.core import meta

from txjax.errors import UserError
from txjax.nn.parameters.active_adapter import module_path_prefix
from txjax.nn.parameters.aux_outputs import AUX_COLLECTIONS
from txjax.nn.parameters.remat import Policy, needs_barriers
from txjax.types import PyTree

_STACKED = {nn.PARTITION_NAME: "layers"}
_BY_LAYER = (
    "cache",
    "intermediates",
    "attention_maps",
    "layer_inputs",
    *AUX_COLLECTIONS,
)  # what each layer has for itself


def check_turns(depth: int, kinds: int, groups: int) -> None:
    """Raises UserError if the depth is not a multiple of the kinds of layers, and of the sets of parameters."""
    if depth % kinds:
        raise UserError("config.model.depth", f"a multiple of the {kinds} kinds of layers", depth)
    if depth % groups:
        raise UserError("config.model.stack.groups", f"a divisor of the depth {depth}", groups)
    if groups < depth and (depth // groups) % kinds:
        expected = f"groups of a multiple of the {kinds} kinds of layers"
        raise UserError("config.model.stack.groups", expected, groups)


def run_layer_kinds(
    stack: nn.Module,
    kinds: tuple[nn.Module, ...],
    groups: int,
    layer: Callable[..., tuple[PyTree, PyTree | None]],
    x: PyTree,
    context: PyTree,
    unroll: int,
    policy: Policy | None,
) -> PyTree:
    """The stream after all layers of an initialised `Stack`, or the pair with those after each layer.

    Layer i is of kind i % kinds and has the parameters number i // (depth / groups). One turn of the loop runs one
    layer of each kind, so that what is static in a kind, such as a window, stays static. If the parameters are
    unstacked (`unstacked`), there is no loop, and the cache has arrays for each layer, too.

    Args:
      groups: sets of parameters, the leading dimension of each array of `params`.
      layer: (a block, stream, context, fraction of the depth) -> (stream, stream or None).
      unroll: layers in one turn of the loop.
      policy: which results are saved for the backward pass. If None, all.

    Raises:
      UserError: the kinds have other parameters than the first one, or layers have model state.
    """
    depth = stack.depth
    count = len(kinds)
    blocks = [kind.clone(parent=None, name="block", _deep_clone=True) for kind in kinds]
    collections = {name: dict(tree)["block"] for name, tree in stack.variables.items() if "block" in tree}
    apart = isinstance(collections["params"], tuple)
    collections = collections if apart else meta.remove_axis(collections, 0, _STACKED)
    params = collections.pop("params")
    if state := sorted(set(collections) - set(_BY_LAYER)):
        raise UserError("config.model.stack", "layers without model state, if they differ or are shared", state)
    scope = stack.scope
    assert scope is not None
    mutable = scope.mutable
    rngs = {name: jax.random.split(stack.make_rng(name), depth) for name in scope.rngs if name != "params"}
    shared = groups < depth
    turns = depth // groups // count if shared else depth // count
    unroll = min(max(1, unroll // count), turns)
    barriers = apart or needs_barriers(turns // unroll, unroll * count)

    def run(i: int, params: PyTree, arrays: PyTree, x: PyTree) -> tuple[PyTree, tuple[PyTree | None, PyTree]]:
        variables, keys, fraction = arrays

        def apply(params: PyTree, variables: PyTree, keys: PyTree, x: PyTree, fraction: jax.Array) -> Any:
            def call(block: nn.Module) -> Any:
                return layer(block, x, context, fraction)

            try:
                with module_path_prefix((*stack.path, "block")):
                    return nn.apply(call, blocks[i], mutable=mutable)({"params": params, **variables}, rngs=keys)
            except (errors.ScopeParamNotFoundError, errors.ScopeParamShapeError) as error:
                if i == 0:
                    raise
                hint = "one Block of your own with both as branches is a layer of any parts"
                expected = "mixers whose parameters have equal names and shapes, to take turns"
                got = ", ".join(type(kind.mixer).__name__ for kind in kinds)
                raise UserError("config.model.mixer", expected, got, hint=hint) from error

        if policy is not None:
            apply = jax.checkpoint(apply, prevent_cse=barriers, policy=policy)
        out = apply(params, variables, keys, x, fraction)
        (x, stream), changed = (out, {}) if mutable is False else out
        return x, (stream, dict(changed))

    def turn(params_of: Callable[[int], PyTree], x: PyTree, arrays: PyTree) -> tuple[PyTree, PyTree]:
        results = []
        for i in range(count):
            x, result = run(i, params_of(i), jax.tree.map(lambda a, i=i: a[i], arrays), x)
            results.append(result)
        return x, jax.tree.map(lambda *outcomes: jnp.stack(outcomes), *results)

    def cut(tree: PyTree, *leading: int) -> PyTree:
        return jax.tree.map(lambda a: a.reshape(*leading, *a.shape[1:]), tree)

    if apart:
        fractions = stack.depth_fractions(depth)
        outcomes = []
        for i in range(depth):
            variables, keys = ({name: layers[i] for name, layers in tree.items()} for tree in (collections, rngs))
            arrays = variables, keys, fractions[i]
            x, result = run(i % count, params[i * groups // depth], arrays, x)
            outcomes.append(result)
        for name in outcomes[0][1]:
            stack.put_variable(name, "block", tuple(changed[name] for _, changed in outcomes))
        streams = jax.tree.map(lambda *layers: jnp.stack(layers), *(stream for stream, _ in outcomes))
        return x if streams is None else (x, streams)

    arrays = (collections, rngs, stack.depth_fractions(depth))
    if shared:

        def group(x: PyTree, one: PyTree) -> tuple[PyTree, PyTree]:
            params, arrays = one
            return jax.lax.scan(lambda x, arrays: turn(lambda i: params, x, arrays), x, arrays, unroll=unroll)

        x, results = jax.lax.scan(group, x, (params, cut(arrays, groups, turns, count)))
    else:

        def several(x: PyTree, one: PyTree) -> tuple[PyTree, PyTree]:
            params, arrays = one
            return turn(lambda i: jax.tree.map(lambda a: a[i], params), x, arrays)

        xs = cut(params, turns, count), cut(arrays, turns, count)
        x, results = jax.lax.scan(several, x, xs, unroll=unroll)
    lead = 3 if shared else 2
    streams, changed = jax.tree.map(lambda a: a.reshape(depth, *a.shape[lead:]), results)
    for name, tree in meta.add_axis(changed, 0, _STACKED).items():
        stack.put_variable(name, "block", tree)
    return x if streams is None else (x, streams)


def unstacked(variables: PyTree, paths: Iterable[str]) -> PyTree:
    """The variables with the parameters of the stacks at these paths as tuples, of one tree for each layer.

    A stack applied to them computes the same, layer after layer and without a loop, and keeps a cache in the same form.
    A program that applies it again and again, as decoding does, then reads each layer's arrays where they are, while a
    loop over stacked ones copies them out of the stack each time. Stacks whose layers have model state are left alone.
    """
    flat = {collection: traverse_util.flatten_dict(tree) for collection, tree in variables.items()}
    params = flat.pop("params")
    for path in {(*filter(None, path.split("/")), "block") for path in paths}:
        state = any(name[: len(path)] == path for tree in flat.values() for name in tree)
        here = [] if state else [name for name in params if name[: len(path)] == path]
        if stacked := {name[len(path) :]: params.pop(name) for name in here}:
            layers = meta.remove_axis(stacked, 0, _STACKED)
            count = len(jax.tree.leaves(layers)[0])
            apart = (jax.tree.map(lambda leaf, i=i: leaf[i], layers) for i in range(count))
            params[path] = tuple(traverse_util.unflatten_dict(layer) for layer in apart)
    return {**variables, "params": traverse_util.unflatten_dict(params)}
