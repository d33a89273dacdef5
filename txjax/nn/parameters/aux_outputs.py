"""Auxiliary outputs of modules: terms of the loss, and metrics."""

import flax.linen as nn
import jax.numpy as jnp
from jaxtyping import Array, Float

AUX_COLLECTIONS = ("losses", "metrics", "layer_metrics")


def sow_aux(module: nn.Module, kind: str, name: str, values: Float[Array, "B N"]) -> None:
    """Sows numbers for each example; the objective takes their means over the examples of the batch.

    Args:
      kind: "losses": a term that training adds to the loss, the sum over all layers that sow it; "metrics": the mean
        over all of them; "layer_metrics": a metric of each layer that sows it, `name/layer_0`, `name/layer_1`, ...
      name: of the term or the metric; `name_0`, `name_1`, ... where N is above 1.
    """
    assert kind in AUX_COLLECTIONS, kind
    if not module.is_initializing():
        module.sow(kind, name, values.astype(jnp.float32), init_fn=lambda: None, reduce_fn=lambda _, new: new)
