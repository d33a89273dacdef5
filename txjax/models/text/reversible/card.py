"""The family's card."""

from txjax.models.cards import TOKEN_TASKS, VOCAB, Card, Example
from txjax.models.text.reversible.reversible import ReversibleDecoder

CARD = Card(
    title="reversible decoder",
    examples=(
        Example(
            model=ReversibleDecoder(vocab=VOCAB, width=8, depth=2, heads=2),
            objectives=TOKEN_TASKS | {"NextToken": None},
            returns="what its `head` gives; by default `nn.Logits` `[B L V]`",
            config="configs/text/layers_tiny.py:two_streams",
            limits="a pipeline, which can't cut several streams",
        ),
    ),
)
