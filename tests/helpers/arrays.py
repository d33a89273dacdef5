"""Random arrays and variables for tests. Not by jax.random: compiling it takes a second a shape."""

import dataclasses
import math
from typing import Any

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
from flax.core import meta

from txjax.nn import Encoded, Head, HeadContext, Init, Logits
from txjax.nn.parameters.init import KernelInit
from txjax.parametrization import Scaling


def numbers(*shape: int, seed: int = 0) -> np.ndarray:
    """Standard normal float32."""
    return np.random.default_rng(seed).normal(size=shape).astype(np.float32)


def on_jax(tree: Any) -> Any:
    """The same tree with jax arrays instead of numpy's, as signatures require."""
    return jax.tree.map(lambda leaf: jnp.asarray(leaf) if isinstance(leaf, np.ndarray) else leaf, tree)


def call(function: Any, *args: Any, **kwargs: Any) -> Any:
    """Calls the function with these arguments, numpy arrays converted to jax arrays."""
    args, kwargs = on_jax((args, kwargs))
    return function(*args, **kwargs)


def shapes(module: Any, *args: Any, **kwargs: Any) -> dict[str, Any]:
    """The shapes of the variables of a module called with these arguments."""
    args, kwargs = on_jax((args, kwargs))
    return meta.unbox(jax.eval_shape(lambda: module.init(jax.random.key(0, impl="rbg"), *args, **kwargs)))


def variables(module: Any, *args: Any, **kwargs: Any) -> dict[str, Any]:
    """The variables of a module called with these arguments; no value is zero or one, state is positive."""
    return filled(shapes(module, *args, **kwargs))


def filled(shapes: dict[str, Any]) -> dict[str, Any]:
    """Variables of these shapes; no value is zero or one, state is positive."""
    rng = np.random.default_rng(7)
    made = jax.tree.map(lambda s: rng.normal(0.1, 0.3, s.shape).astype(s.dtype), shapes)
    return {name: tree if name == "params" else jax.tree.map(np.abs, tree) for name, tree in made.items()}


def dense(tree: Any) -> Any:
    """The same tree with arrays instead of lazy logits."""

    def lazy(x: Any) -> bool:
        return isinstance(x, Logits)

    return jax.tree.map(lambda x: x.dense() if lazy(x) else x, tree, is_leaf=lazy)


def forward(model: Any) -> Any:
    """The model's `apply`, jitted, its logits computed."""
    return jax.jit(lambda *args, **kwargs: dense(model.apply(*args, **kwargs)))


class Headed(nn.Module):
    """A head alone: its parameters, called with what an encoder returned."""

    head: Head
    initial: Init = dataclasses.field(default_factory=Init)
    scaling: Scaling = dataclasses.field(default_factory=Scaling)

    @nn.compact
    def __call__(self, encoded: Encoded) -> Any:
        return self.head(encoded, HeadContext(self, KernelInit(self.initial, self.scaling)))


class Echo:
    """A stub model that returns `output` and records its arguments."""

    patch = 2

    def __init__(self, output: Any):
        self.output = on_jax(output)

    def apply(self, variables: Any, *, mutable: Any = False, rngs: Any = None, **inputs: Any) -> Any:
        self.variables = variables
        self.rngs = rngs
        self.inputs = inputs
        return (
            self.output
            if mutable is False
            else (self.output, {name: "changed" for name in mutable if name in variables})
        )


def fill(abstract, seed: int):
    """The state with these shapes and made-up numbers, where `abstract` says."""
    leaves, structure = jax.tree.flatten(abstract)
    made = [numbers(*x.shape, seed=seed + i).astype(x.dtype) for i, x in enumerate(leaves)]
    return jax.tree.unflatten(structure, [jax.device_put(n, x.sharding) for n, x in zip(made, leaves, strict=True)])


def parameter_count(model: Any, *args: Any, **kwargs: Any) -> int:
    """The number of parameters of a model called with these arguments, on shapes alone."""
    return sum(math.prod(leaf.shape) for leaf in jax.tree.leaves(shapes(model, *args, **kwargs)["params"]))
