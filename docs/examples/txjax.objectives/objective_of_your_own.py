"""An objective of your own.

The focal loss (Lin et al. 2017).
"""

import dataclasses
from functools import partial
from typing import ClassVar

import jax
import jax.numpy as jnp

from txjax.models.vision.vit import ViT
from txjax.nn import Classes, FirstToken
from txjax.objectives import Objective, apply_model
from txjax.types import Mean, config_field


@dataclasses.dataclass
class Focal(Objective):
    """-(1 - p)^gamma log p of the label."""

    gamma: float = config_field(2.0, at_least=0)

    required_keys: ClassVar[tuple[str, ...]] = ("id", "image", "label", "weights")

    def __call__(self, model, variables, batch, key, train):
        logits, aux = apply_model(model, variables, self.inputs(model, batch), batch, key, train)
        log_p = jnp.take_along_axis(jax.nn.log_softmax(logits), batch["label"][:, None], axis=-1)[:, 0]
        loss = -((1 - jnp.exp(log_p)) ** self.gamma) * log_p
        return aux.outcome({"focal": Mean.of(loss, batch["weights"])}, {"nats": Mean.of(-log_p, batch["weights"])})


key = jax.random.key(0)
model = ViT(patch=4, width=32, depth=1, heads=4, head=Classes(10, FirstToken()))
batch = {"id": jnp.arange(2), "image": jnp.zeros([2, 8, 8, 3]), "label": jnp.array([3, 7]), "weights": jnp.ones(2)}
objective = Focal(gamma=2.0)
variables = jax.eval_shape(partial(objective.init, model), {"params": key}, batch)
output = jax.eval_shape(partial(objective, model, train=True), variables, batch, key)
print(list(output.losses), list(output.metrics))  # ['focal'] ['nats']
