"""Matrix products in eight bits, forward and backward, with the library qwix. Parameters stay float32."""

import contextlib
import dataclasses
from collections.abc import Callable, Iterator
from typing import Any

import flax.linen as nn
import jax
from jax.typing import DTypeLike

from txjax.errors import UserError, require
from txjax.nn.layers.linear import Linear
from txjax.nn.parameters.active_adapter import inside_adapter
from txjax.nn.parameters.interception import is_call_of
from txjax.patterns import matches_path
from txjax.types import config_field

_FIELD = "config.model.quantize"


@dataclasses.dataclass
class Quantize:
    """Which products of the layers are quantised to eight bits, and how.

    Both operands of a product get a scale for each row and column that is not contracted, their largest magnitude over
    that of the dtype, computed at every call. The gradient uses the straight-through estimator (Bengio et al. 2013).

    Attributes:
      dtype: of activations and kernels in the forward product.
      gradients: dtype of the incoming gradient in the two backward products, whose other operand is then the quantised
        one of the forward product. If None, both products are computed without quantisation.
      paths: a regular expression for the whole path of a `Linear` inside its block, such as `mlp/up`; by default all
        but a router to experts. Adapters are not quantised.
    """

    dtype: str = config_field("int8", choices=("int8", "float8_e4m3fn"))
    gradients: str | None = config_field(None, choices=("int8", "float8_e4m3fn", "float8_e5m2"))
    paths: str = "(?!.*router).*"

    def matches(self, path: str) -> bool:
        """Whether products of the `Linear` at this path are quantized. Raises UserError for an invalid pattern."""
        return matches_path(self.paths, path, f"{_FIELD}.paths")

    def product(self) -> Callable[..., jax.Array]:
        """`jnp.matmul` of [N D] and [D M] in eight bits. Raises UserError if qwix is not installed."""
        require("qwix", "qwix", _FIELD, extra="quantize")
        import qwix

        rule = qwix.QtRule(weight_qtype=self.dtype, act_qtype=self.dtype, bwd_qtype=self.gradients)
        provider = qwix.QtProvider([rule])

        def multiply(x: jax.Array, kernel: jax.Array, preferred_element_type: DTypeLike) -> jax.Array:
            # qwix treats an operand as a parameter if it has the shape of one: x must not.
            y = provider.dot_general(x[None], kernel, (((2,), (0,)), ((), ())))
            return y[0].astype(preferred_element_type)

        return multiply


@contextlib.contextmanager
def quantized(how: Quantize | None) -> Iterator[None]:
    """Quantises every `Linear` that is called inside and whose path matches `how.paths`.

    Raises:
      UserError: no path matches.
    """
    if how is None:
        yield
        return
    product = how.product()
    paths = set()

    def intercept(call: Any, args: Any, kwargs: Any, context: nn.module.InterceptorContext) -> Any:
        if not is_call_of(context, Linear.__call__) or inside_adapter():
            return call(*args, **kwargs)
        paths.add(path := "/".join(context.module.path).rpartition("block/")[2])
        return call(*args, **kwargs, **({"product": product} if how.matches(path) else {}))

    with nn.intercept_methods(intercept):
        yield
    if not any(how.matches(path) for path in paths):
        raise UserError(f"{_FIELD}.paths", "a pattern that some Linear's path matches", how.paths, sorted(paths)[:3])
