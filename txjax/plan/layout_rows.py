"""The layout of a run: parameter -> logical axes -> mesh axes -> bytes a device."""

import math
from collections.abc import Mapping
from typing import Any

from txjax.sharding import is_axes
from txjax.train.state.state import Layout
from txjax.types import flat_paths


def layout_rows(layout: Layout) -> list[dict[str, Any]]:
    """A row for every parameter: its name, shape, logical axes, mesh axes, bytes on one device."""
    axes = flat_paths(layout.axes, is_leaf=is_axes)
    rows = []
    for path, x in (flat_paths(layout.abstract.params) | flat_paths(layout.abstract.frozen)).items():
        spec = [_split(entry, x.sharding.mesh.shape) for entry in x.sharding.spec]
        rows.append(
            {
                "parameter": path,
                "shape": list(x.shape),
                "axes": ", ".join(name or "-" for name in axes[path]),
                "partition": ", ".join(spec + ["-"] * (len(x.shape) - len(spec))),
                "bytes_per_device": math.prod(x.sharding.shard_shape(x.shape)) * x.dtype.itemsize,
            }
        )
    return rows


def _split(entry: Any, sizes: Mapping[str, int]) -> str:
    """The mesh axes that really split a dimension."""
    over = (entry,) if isinstance(entry, str) else entry or ()
    return "+".join(axis for axis in over if sizes[axis] > 1) or "-"
