"""An optimizer of your own.

The sign of the gradient. Decay, clipping, groups and schedules are the base's.
"""

import dataclasses

import jax
import jax.numpy as jnp
import optax

from txjax.optim import Constant, Optimizer


@dataclasses.dataclass
class SignDescent(Optimizer):
    """The sign of each gradient (Bernstein et al. 2018)."""

    def direction(self, axes):
        return optax.stateless(lambda updates, _: jax.tree.map(jnp.sign, updates))


params = {"head": {"kernel": jnp.array([[1.0, -2.0]])}}
optimizer = SignDescent(peak_lr=0.1, schedule=Constant())
update = optimizer.build(num_steps=10, axes={"head": {"kernel": ("embed", "classes")}})
steps, _ = update.update({"head": {"kernel": jnp.array([[0.3, -0.1]])}}, update.init(params), params)
print(steps["head"]["kernel"])  # [[-0.1  0.1]]
