"""Recurrent encoder-decoders with attention (Bahdanau et al. 2015; Luong et al. 2015)."""

from txjax.models.text.recurrent.alignment import Additive, Alignment, Annotations, Dot, General
from txjax.models.text.recurrent.attention_decoders import AttendingDecoder, BahdanauDecoder, LuongDecoder
from txjax.models.text.recurrent.cells import GRU, LSTM, Cell
from txjax.models.text.recurrent.readout import AttentionalState, Maxout, Readout
from txjax.models.text.recurrent.recurrent import RecurrentEncoderDecoder, luong
from txjax.models.text.recurrent.recurrent_scan import Bidirectional, Recurrent

__all__ = [
    "Additive",
    "Alignment",
    "Annotations",
    "BahdanauDecoder",
    "LuongDecoder",
    "AttendingDecoder",
    "AttentionalState",
    "Bidirectional",
    "Cell",
    "Dot",
    "GRU",
    "General",
    "LSTM",
    "Maxout",
    "Readout",
    "Recurrent",
    "RecurrentEncoderDecoder",
    "luong",
]
