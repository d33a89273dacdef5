"""BERT (Devlin et al. 2019) and its relatives: RoBERTa, DistilBERT, ALBERT, XLM, RoFormer."""

from txjax.models.text.bert.bert import Bert

__all__ = ["Bert"]
