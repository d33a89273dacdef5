"""How arrays are split over devices: the only room that names mesh axes."""

from txjax.sharding.current import (
    active,
    constrain,
    each,
    gather,
    mapped,
    nowhere,
    part,
    partition,
    parts,
    pass_on,
    use,
    within,
)
from txjax.sharding.mesh import AXES, RULES, Axes, Mesh, batch_sharding, is_axes, shardings, stacked

__all__ = [
    "AXES",
    "RULES",
    "Axes",
    "Mesh",
    "active",
    "batch_sharding",
    "constrain",
    "each",
    "gather",
    "is_axes",
    "mapped",
    "nowhere",
    "part",
    "partition",
    "parts",
    "pass_on",
    "shardings",
    "stacked",
    "use",
    "within",
]
