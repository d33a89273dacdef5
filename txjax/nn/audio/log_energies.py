"""Logarithms of the energies of bands, which keep silence finite."""

import dataclasses

import jax.numpy as jnp
from jaxtyping import Array, Float

from txjax.types import config_field


@dataclasses.dataclass
class LogEnergies:
    """Base class: from energies to their logarithms."""

    def __call__(self, energies: Float[Array, "B F M"]) -> Float[Array, "B F M"]:
        raise NotImplementedError


@dataclasses.dataclass
class FlooredLog(LogEnergies):
    """ln max(x, floor). Kaldi's floor is float32's epsilon, 2^-23."""

    floor: float = config_field(2.0**-23, above=0)

    def __call__(self, energies: Float[Array, "B F M"]) -> Float[Array, "B F M"]:
        return jnp.log(jnp.maximum(energies, self.floor))


@dataclasses.dataclass
class FlooredLog10(LogEnergies):
    """log10 max(x, floor), Whisper's (Radford et al. 2023)."""

    floor: float = config_field(1e-10, above=0)

    def __call__(self, energies: Float[Array, "B F M"]) -> Float[Array, "B F M"]:
        return jnp.log10(jnp.maximum(energies, self.floor))


@dataclasses.dataclass
class OffsetLog(LogEnergies):
    """ln(x + offset), NeMo's."""

    offset: float = config_field(2.0**-24, above=0)

    def __call__(self, energies: Float[Array, "B F M"]) -> Float[Array, "B F M"]:
        return jnp.log(energies + self.offset)
