"""Kernels that are stored in eight or four bits: the frozen base of QLoRA. The library qwix rounds them."""

import dataclasses
import functools
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import flax.struct
import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import DTypeLike

from txjax.axes import Axes, Names
from txjax.errors import UserError, near_misses, require
from txjax.patterns import matches_path
from txjax.sharding import unshard_param
from txjax.types import PyTree, config_field, flat_paths

FIELD = "config.model.storage"
SCALE = "scale"
FORMATS: dict[str, Any] = {"int8": jnp.int8, "int4": jnp.int4, "nf4": "nf4"}  # qwix's names of them
_PACKED = ("int4", "nf4")  # two values a byte, whatever an accelerator makes of four-bit dtypes


@dataclasses.dataclass
class QuantizedKernels:
    """Stores kernels of `Linear`s in few bits; they must be frozen. Products are computed in the activations' dtype.

    A kernel [*in *out] is rounded to `format` over a scale for each output and each `tile` of the last input dimension
    (its other input dimensions have scales of their own, too). It becomes the parameters `kernel/FORMAT`, int8 [*in
    *out] or uint8 with two values a byte along the last dimension, and `kernel/scale`, float32. Forward and backward
    pass restore the values where a product needs them, and keep none (Dettmers et al. 2023, QLoRA, equations 5 and 6;
    their scales are quantized once more, these are not).

    Attributes:
      format: int8, int4, or nf4, whose sixteen values are quantiles of a normal distribution (the same, 3).
      tile: the largest number of inputs that share a scale; the largest divisor of the dimension up to it is taken. If
        None, all inputs do.
      paths: a regular expression that matches the whole path of a `Linear`; by default all in layers but a router to
        experts. Adapters' own kernels are never quantized.
    """

    format: str = config_field("nf4", choices=tuple(FORMATS))
    tile: int | None = config_field(64, at_least=2)
    paths: str = config_field("(?!.*router).*block/.*")

    def matches(self, path: str) -> bool:
        """Whether the kernel of the module at this path is quantized. Raises UserError for an invalid pattern."""
        return matches_path(self.paths, path, f"{FIELD}.paths")

    def quantized(self, kernel: jax.Array, axes: Axes) -> dict[str, jax.Array]:
        """The parameters of a kernel, by name.

        Raises:
          UserError: qwix is not installed, or the last dimension is odd in a format of four bits.
        """
        require("qwix", "qwix", FIELD, extra="quantize")
        import qwix

        *apart, last = axes.uncopied_dims[: axes.inputs]
        alone = [*apart] if self.tile else []
        tiles = {last: _tile(kernel.shape[last], self.tile)} if self.tile else {}
        scaled_axes = [i for i in range(kernel.ndim) if i not in axes.uncopied_dims[: axes.inputs]] + alone
        quantized = qwix.quantize(kernel, FORMATS[self.format], channelwise_axes=scaled_axes, tiled_axes=tiles)
        values = quantized.qvalue
        if self.format in _PACKED:
            if kernel.shape[-1] % 2:
                got = f"{list(kernel.shape)}"
                raise UserError(f"{FIELD}.paths", "kernels whose last dimension is even, for four bits", got)
            low, high = (values.astype(jnp.uint8)[..., start::2] & 15 for start in (0, 1))
            values = low | high << 4
        return {self.format: values, SCALE: quantized.scale}

    def axes(self, axes: Axes) -> dict[str, Axes]:
        """The logical axes of these parameters."""
        inputs = axes.uncopied_dims[: axes.inputs]
        scale = Axes((None if i in inputs else name for i, name in enumerate(axes)), axes.inputs)
        return {self.format: axes, SCALE: scale}

    def check(self, offered: set[str]) -> None:
        """Raises UserError if `paths` matches none of these paths."""
        if not any(map(self.matches, offered)):
            near = near_misses(re.sub(r"[^\w/]+", "", self.paths), offered) or sorted(offered)[:3]
            raise UserError(f"{FIELD}.paths", "a pattern that matches the path of a Linear", self.paths, near)


def _tile(size: int, most: int) -> int:
    return next(tile for tile in range(min(size, most), 0, -1) if size % tile == 0)


class StoredKernel(flax.struct.PyTreeNode):
    """A kernel as `QuantizedKernels` stores it.

    Attributes:
      values, scale: the parameters.
      format: the name of the format.
    """

    values: Any
    scale: Any
    format: str = flax.struct.field(pytree_node=False)

    @property
    def ndim(self) -> int:
        return self.values.ndim

    @property
    def shape(self) -> tuple[int, ...]:
        *lead, last = self.values.shape
        return *lead, 2 * last if self.format in _PACKED else last

    def astype(self, dtype: DTypeLike) -> jax.Array:
        """The kernel's values [*in *out]. (qwix looks up the sixteen values of nf4 entry by entry.)"""
        values = self.values
        if self.format in _PACKED:
            values = jnp.stack([values & 15, values >> 4], -1).reshape(self.shape)
        if self.format == "int4":
            values = (values.astype(jnp.int8) ^ 8) - 8
        restored = _selected(values, _nf4(), 8) if self.format == "nf4" else values.astype(jnp.float32)
        tiled = []
        tiles = []
        for size, count in zip(self.shape, self.scale.shape, strict=True):
            tiled += [count, size // count]
            tiles += [count, 1]
        return (restored.reshape(tiled) * self.scale.reshape(tiles)).reshape(self.shape).astype(dtype)

    def gathered(self, axes: Names) -> "StoredKernel":
        """The same, not sharded over the mesh axes that shard the batch: gathered in few bits.

        Args:
          axes: logical names of the kernel's axes.
        """
        scales = (None if scales == 1 else name for scales, name in zip(self.scale.shape, axes, strict=True))
        return self.replace(values=unshard_param(self.values, *axes), scale=unshard_param(self.scale, *scales))


def _selected(codes: jax.Array, table: Sequence[float], bit: int) -> jax.Array:
    """The entries of a table of 2 * bit numbers: a tree of selections, which is elementwise on any device."""
    if not bit:
        return jnp.float32(table[0])
    half = len(table) // 2
    low, high = (_selected(codes, part, bit // 2) for part in (table[:half], table[half:]))
    return jnp.where(codes & bit != 0, high, low)


@functools.cache
def _nf4() -> tuple[float, ...]:
    """The sixteen values of nf4."""
    import qwix

    with jax.ensure_compile_time_eval():
        codes = jnp.arange(16, dtype=jnp.uint4)
        return tuple(np.asarray(qwix.dequantize(qwix.QArray(codes, jnp.ones(1), None, "nf4"))).tolist())


def stored(params: Any) -> StoredKernel | None:
    """The kernel that these parameters store; None for an array, and for a dict of other parameters."""
    if isinstance(params, Mapping) and SCALE in params:
        for name in FORMATS:
            if name in params:
                return StoredKernel(params[name], params[SCALE], name)
    return None


def dequantized(params: PyTree) -> PyTree:
    """A nested dict of parameters with every stored kernel as one float32 array."""
    if (kernel := stored(params)) is not None:
        return kernel.astype(jnp.float32)
    return {name: dequantized(x) for name, x in params.items()} if isinstance(params, Mapping) else params


def parameter_sizes(params: PyTree) -> dict[str, int]:
    """The number of parameters by path: a stored kernel has those of the kernel, and its scales are none."""
    flat = flat_paths(params)
    stored = stored_parts(flat)
    twice = tuple(f"/{name}" for name in _PACKED)
    return {
        stored.get(path, path): x.size * (2 if path in stored and path.endswith(twice) else 1)
        for path, x in flat.items()
        if path not in stored or not path.endswith(f"/{SCALE}")
    }


def stored_parts(paths: Iterable[str]) -> dict[str, str]:
    """Which of these paths of arrays are parts of stored kernels, and the paths of these kernels."""
    paths = set(paths)
    kernels = {kernel for path in paths for kernel, _, name in [path.rpartition("/")] if name in FORMATS}
    return {path: kernel for path in paths for kernel, _, _ in [path.rpartition("/")] if kernel in kernels}
