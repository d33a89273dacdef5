"""An adapter's tokens before the patches of a grid: in every window, and beside what patches alone go through."""

from collections.abc import Callable

import jax.numpy as jnp
from jaxtyping import Array, Float

from txjax.nn.attention.layer_context import LayerContext
from txjax.nn.attention.windows import Windows
from txjax.nn.kernels.mask import Mask
from txjax.nn.positions.positions import Grid


def grid_alone(context: LayerContext) -> Grid | None:
    """The grid of the patches after an adapter's tokens; None if there are other tokens, such as a class token."""
    grid = context.grid
    return None if grid is None or grid.prefix != context.mask.prefix else grid._replace(prefix=0)


def cut_after_prompt(windows: Windows, x: Float[Array, "B L D"], prompt: int) -> Float[Array, "BW T D"]:
    """The tokens of every window after so many tokens of an adapter, which all windows have."""
    if not prompt:
        return windows.cut(x)
    tokens = jnp.repeat(x[:, :prompt], windows.count, 0)
    return jnp.concatenate([tokens, windows.cut(x[:, prompt:])], 1)


def join_after_prompt(windows: Windows, x: Float[Array, "BW T H K"], prompt: int) -> Float[Array, "B L H K"]:
    """The tokens of all windows, after the means of the adapter's tokens over an image's windows."""
    if not prompt:
        return windows.join(x)
    tokens = x[:, :prompt].reshape(-1, windows.count, prompt, *x.shape[2:]).mean(1)
    return jnp.concatenate([tokens, windows.join(x[:, prompt:])], 1)


def mask_after_prompt(mask: Mask, size: int, prompt: int) -> Mask:
    """The mask of windows of `size` tokens after so many of an adapter, which see all of a window, and all see them."""
    allowed = mask.dense(size, size) if prompt else None
    if allowed is None:
        return mask
    return Mask(allowed=jnp.pad(allowed, ((0, 0), (0, 0), (prompt, 0), (prompt, 0)), constant_values=True))


def bias_after_prompt(bias: Float[Array, "B H S S"], prompt: int) -> Float[Array, "B H T T"]:
    """The bias with zeros for the scores of so many tokens of an adapter, which are before the others."""
    return jnp.pad(bias, ((0, 0), (0, 0), (prompt, 0), (prompt, 0))) if prompt else bias


def on_patches(
    layer: Callable[[Float[Array, "B N D"]], Float[Array, "B N D"]], x: Float[Array, "B L D"], prompt: int
) -> Float[Array, "B L D"]:
    """The layer's output for the patches, after so many tokens of an adapter as they are."""
    return jnp.concatenate([x[:, :prompt], layer(x[:, prompt:])], 1) if prompt else layer(x)
