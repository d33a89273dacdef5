"""A model that is drawn with kernels in eight or four bits."""

import contextlib
from collections.abc import Iterator
from typing import Any

import flax.linen as nn
import jax.numpy as jnp

from txjax.axes import Axes
from txjax.nn.layers.linear import Boxed, Linear
from txjax.nn.parameters.active_adapter import inside_adapter
from txjax.nn.parameters.interception import is_call_of
from txjax.nn.parameters.parameter_order import record_parameter
from txjax.nn.parameters.quantized_kernels import QuantizedKernels, stored


@contextlib.contextmanager
def storing(storage: QuantizedKernels | None) -> Iterator[None]:
    """The kernels that `Linear`s draw inside are stored so, but for those of adapters. If None, as float32.

    Raises:
      UserError: no path matches.
    """
    if storage is None:
        yield
        return
    offered: set[str] = set()

    def intercept(call: Any, args: tuple, options: dict[str, Any], context: nn.module.InterceptorContext) -> Any:
        linear = context.module
        if not is_call_of(context, Linear.kernel_parameter) or inside_adapter():
            return call(*args, **options)
        offered.add(path := "/".join(linear.path))
        if not storage.matches(path) or linear.has_variable("params", "kernel"):
            return call(*args, **options)
        draw, shape, axes, inputs = args
        names = storage.axes(Axes(axes, inputs))

        def boxed(*arguments: Any) -> dict[str, Boxed]:
            parts = storage.quantized(draw(*arguments), names[storage.format])
            return {name: Boxed(x, tuple(names[name]), inputs=inputs) for name, x in parts.items()}

        for name in names:
            record_parameter(linear.path, f"kernel/{name}")
        return stored(linear.param("kernel", boxed, shape, jnp.float32))

    with nn.intercept_methods(intercept):
        yield
    storage.check(offered)
