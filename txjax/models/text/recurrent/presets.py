"""Published sizes. Every field can be overridden by an argument or a flag."""

from typing import Any

from txjax.models.text.recurrent.recurrent import RecurrentEncoderDecoder


def rnnsearch(**fields: Any) -> RecurrentEncoderDecoder:
    """RNNsearch (Bahdanau et al. 2015, appendix A), without biases: 30,000 words of each language."""
    sizes = dict(vocab=30000, source_vocab=30000, embed_width=620, width=1000)
    return RecurrentEncoderDecoder(**sizes | fields)
