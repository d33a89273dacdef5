"""The head of masked tokens that has no layer of its own before the logits."""

import dataclasses

from txjax.nn.heads.head import Encoded, Head, HeadContext
from txjax.nn.heads.logits import Logits
from txjax.nn.heads.vocab_heads import TiedBias, VocabHead


@dataclasses.dataclass
class PlainMaskedTokens(Head):
    """XLM's head for pretraining (Lample and Conneau 2019): logits of the features as they are, no transform.

    Attributes:
      logits: how the features become logits.
    """

    logits: VocabHead = dataclasses.field(default_factory=TiedBias)

    def __call__(self, encoded: Encoded, context: HeadContext) -> tuple[Logits, None]:
        """Lazy logits [B L V] of the token at each position; there are no sentence pairs."""
        return self.logits(encoded, context), None
