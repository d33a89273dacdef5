"""What losses read of logits, in three passes over them: two forward, one backward.

The logits [*batch V] are the largest array of a language model. By default the largest one is looked for twice, for
log Z and for the accuracy; the gradient of log Z computes its passes again where the logits are recomputed; and that of
a choice adds to an array of zeros.
"""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from txjax.nn.parameters.remat import LOG_Z, checkpoint_name

Targets = tuple[Int[Array, "*batch"], ...]


class LogitStatistics(NamedTuple):
    """Numbers of each position.

    Attributes:
      log_z: log sum exp of the logits, float32.
      chosen: the logit of each target, float32.
      best: the first id with the largest logit, int32. It has no gradient.
    """

    log_z: Float[Array, "*batch"]
    chosen: tuple[Float[Array, "*batch"], ...]
    best: Int[Array, "*batch"]


@jax.custom_vjp
def logit_statistics(logits: Float[Array, "*batch V"], targets: Targets) -> LogitStatistics:
    """The statistics of logits, of any dtype, for some targets of each position; computed in float32."""
    return _forward(logits, targets)[0]


def _forward(logits: jax.Array, targets: Targets) -> tuple[LogitStatistics, Any]:
    best = jnp.argmax(logits, -1)
    top = _at(logits, best)
    top = jnp.where(jnp.isfinite(top), top, 0)
    log_z = jnp.log(jnp.exp(logits.astype(jnp.float32) - top[..., None]).sum(-1)) + top
    log_z = checkpoint_name(log_z, LOG_Z)
    chosen = tuple(_at(logits, target) for target in targets)
    return LogitStatistics(log_z, chosen, best), (logits, targets, log_z)


def _at(logits: jax.Array, ids: jax.Array) -> jax.Array:
    """The logit of an id at each position, float32."""
    return jnp.take_along_axis(logits, ids[..., None], axis=-1)[..., 0].astype(jnp.float32)


def _backward(residuals: Any, gradients: LogitStatistics) -> tuple[jax.Array, None]:
    """softmax * dlog_z, and the gradients of the choices where the id is the target's."""
    logits, targets, log_z = residuals
    ids = jax.lax.broadcasted_iota(jnp.int32, logits.shape, logits.ndim - 1)
    total = jnp.exp(logits.astype(jnp.float32) - log_z[..., None]) * gradients.log_z[..., None]
    for target, gradient in zip(targets, gradients.chosen, strict=True):
        total += jnp.where(ids == target[..., None], gradient[..., None], 0)
    return total.astype(logits.dtype), None


logit_statistics.defvjp(_forward, _backward)
