"""The family's card, and its published sizes: every field can be overridden by an argument or a flag."""

from typing import Any

from txjax.models.cards import VOCAB, Card, Example, Preset, Size, System
from txjax.models.text.recurrent.recurrent import RecurrentEncoderDecoder


def rnnsearch(**fields: Any) -> RecurrentEncoderDecoder:
    """RNNsearch (Bahdanau et al. 2015, appendix A), without biases: 30,000 words of each language."""
    sizes = dict(vocab=30000, source_vocab=30000, embed_width=620, width=1000)
    return RecurrentEncoderDecoder(**sizes | fields)


CARD = Card(
    title="recurrent encoder-decoder with attention",
    examples=(
        Example(
            model=RecurrentEncoderDecoder(vocab=VOCAB, width=8),
            objectives={"NextToken": None, "SpanCorruption": None},
            returns="what its `head` gives; by default `nn.Logits` `[B L V]` (`positions` is ignored)",
            config="configs/text/translation_rnn.py",
        ),
    ),
    presets=(
        Preset(
            build=rnnsearch,
            paper="Bahdanau et al. 2015, appendix A",
            remark="the paper's formulas have no biases; 30,000 words on each side",
            sizes={"": Size(80_401_000)},
        ),
    ),
    systems=(
        System(
            name="RNN with attention",
            config="configs/text/translation_rnn.py",
            score="33.2 BLEU",
            presets=(rnnsearch,),
            equal_to="[appendix A in numpy](tests/models/test_recurrent.py)",
            compiled="RNNsearch on v5e:2x4",
        ),
    ),
)
