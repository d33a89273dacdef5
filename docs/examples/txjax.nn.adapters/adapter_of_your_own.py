"""An adapter of your own.

A trained shift of the outputs of some layers. The parameter lies beside the layer's, under the adapter's name,
and starts at zero.
"""

import dataclasses
from typing import ClassVar

import flax.linen as nn
import jax
import jax.numpy as jnp

from txjax.models.text.decoder import Decoder
from txjax.nn.adapters import Adapter


class Shift(nn.Module):
    """x + shift. Parameter `shift`, of the shape of an output."""

    @nn.compact
    def __call__(self, x):
        shift = self.param("shift", nn.initializers.zeros, x.shape[2:])
        return x + jnp.expand_dims(shift, (0, 1))


@dataclasses.dataclass
class ShiftOutputs(Adapter):
    """y + shift for the outputs y of some modules."""

    name: ClassVar[str] = "shift"

    def add(self, module, x, y):
        return Shift(name=self.name)(y)


adapter = ShiftOutputs(paths=".*attention/(query|value)")
model = Decoder(vocab=256, width=64, depth=4, heads=4, adapter=adapter)
variables = jax.eval_shape(model.init, jax.random.key(0), jnp.zeros([1, 8], int))
query = variables["params"]["layers"]["block"]["attention"]["query"]
print(sorted(query))  # ['bias', 'kernel', 'shift']
