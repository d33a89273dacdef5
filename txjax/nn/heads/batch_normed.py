"""Batch normalization between an encoder and a classifier of its features."""

import dataclasses

from jaxtyping import Array, Float

from txjax.nn.heads.class_heads import Pool
from txjax.nn.heads.head import Encoded, HeadContext
from txjax.nn.layers.norms import BatchNorm


@dataclasses.dataclass
class BatchNormed(Pool):
    """Another pooling, then batch normalization, as between MAE's frozen features and its linear probe.

    He et al. 2022, A.1, have no scale and shift there: freeze `norm_head/scale` and `norm_head/bias` with the backbone,
    and they stay 1 and 0. Parameters `norm_head/scale`, `norm_head/bias` [D], and the pooling's. Collection
    "batch_stats": `norm_head/mean`, `norm_head/var` [D].

    Attributes:
      pool: from the tokens to one vector.
      norm: a template; its statistics are over the batch, or over groups of it.
    """

    pool: Pool
    norm: BatchNorm = dataclasses.field(default_factory=lambda: BatchNorm(eps=1e-6))

    def __call__(self, encoded: Encoded, context: HeadContext) -> Float[Array, "B D"]:
        pooled = self.pool(encoded, context)
        return self.norm.clone(parent=context.module, name="norm_head")(pooled, context.train)
