"""The base of Transformers whose features a head reads."""

from typing import Any

import flax.linen as nn

from txjax.models.transformer import Transformer
from txjax.nn import Encoded, Head, HeadContext, MeanTokens, Pool


class Encoder(Transformer, kw_only=True):
    """A Transformer whose features a head reads: `head`, a field of the subclass, from `Encoded` to the model's output.

    With `head=None` the output is `Encoded`, for a model that this one is a part of. The head's parameters are the
    model's. Sows `features` [B D] in the collection "intermediates": the input of a classifier; with other heads, the
    mean over the tokens.
    """

    @nn.nowrap
    def head_context(self, train: bool) -> HeadContext:
        """What heads get from the model."""
        return HeadContext(
            module=self,
            initial=self.initial,
            scaling=self.layer_scaling(),
            norm=self.norm,
            activation=self.mlp.activation,
            dropout=self.dropout,
            train=train,
        )

    @nn.nowrap
    def read(self, encoded: Encoded, head: Head | None, train: bool, pool: Pool | None = None) -> Any:
        """The head's output. If `head` is None, `encoded`.

        Args:
          pool: what gives the features that are sown if the head does not sow its own. If None, `MeanTokens()`.
        """
        context = self.head_context(train)
        context.sow_features((pool or MeanTokens())(encoded, context))
        return encoded if head is None else head(encoded, context)
