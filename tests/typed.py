"""Checks every call of the package against its signature, including shapes, by jaxtyping."""

import jax
from beartype import BeartypeConf, FrozenDict, beartype

# An int is a float; so is a traced number, if several runs share one program.
check = beartype(conf=BeartypeConf(hint_overrides=FrozenDict({float: float | int | jax.Array})))
