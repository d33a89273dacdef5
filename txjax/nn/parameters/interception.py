"""What interceptors of methods (`flax.linen.intercept_methods`) ask."""

from typing import Any

import flax.linen as nn


def is_call_of(context: nn.module.InterceptorContext, method: Any) -> bool:
    """Whether the function that is called is this one, such as `Linear.__call__`, and no override of it."""
    return context.orig_method.func is method.__wrapped__  # type: ignore[attr-defined]
