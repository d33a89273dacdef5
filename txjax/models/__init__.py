"""Models: a model's fields are its config."""

from txjax.models.text.bert import Bert, NextSentence
from txjax.models.text.classifier import BertClassifier, DecoderClassifier
from txjax.models.text.decoder import Decoder, empty_cache, gpt, llama
from txjax.models.text.encoder_decoder import EncoderDecoder
from txjax.models.vision.conv_net import ConvNet
from txjax.models.vision.encoder import ClassToken, MeanPool, PooledToken
from txjax.models.vision.mae import MAE
from txjax.models.vision.vit import ViT

__all__ = [
    "MAE",
    "Bert",
    "BertClassifier",
    "ClassToken",
    "ConvNet",
    "Decoder",
    "DecoderClassifier",
    "EncoderDecoder",
    "MeanPool",
    "NextSentence",
    "PooledToken",
    "ViT",
    "empty_cache",
    "gpt",
    "llama",
]
