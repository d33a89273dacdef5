"""What checks every call of the package against its signature: shapes too, by jaxtyping."""

import jax
from beartype import BeartypeConf, FrozenDict, beartype

# An int is a float; and so is what a program takes in its place, where several runs are one program.
check = beartype(conf=BeartypeConf(hint_overrides=FrozenDict({float: float | int | jax.Array})))
