"""Models: a model's fields are its config."""

from txjax.models.text.bert import Bert, NextSentence
from txjax.models.text.classifier import BertClassifier, DecoderClassifier
from txjax.models.text.decoder import Decoder, gpt, llama
from txjax.models.vision.encoder import ClassToken, MeanPool, PooledToken
from txjax.models.vision.mae import MAE
from txjax.models.vision.vit import ViT

__all__ = [
    "MAE",
    "Bert",
    "BertClassifier",
    "ClassToken",
    "Decoder",
    "DecoderClassifier",
    "MeanPool",
    "NextSentence",
    "PooledToken",
    "ViT",
    "gpt",
    "llama",
]
