"""Datasets as config values; `docs/data.md` tells how they work."""

from txjax.data.dataset import Dataset, Source, TFDSDataset
from txjax.data.images import CenterCrop, Flip, Images, PadCrop, Resize, Transform
from txjax.data.loader import eval_batches, fingerprint, train_batches
from txjax.data.mixture import Mixture
from txjax.data.packed import NextTokenPacked, PackedText
from txjax.data.sentence_piece import SentencePieceFile
from txjax.data.sentences import LabelledText, Sentences
from txjax.data.text import NextTokenWindows, SentencePairs, TextWindows
from txjax.data.tokenizers import Bytes, Characters, Tokenizer, TokenizerFile
from txjax.data.trained import BPE, Trained, Unigram, WordPiece

__all__ = [
    "BPE",
    "Bytes",
    "CenterCrop",
    "Characters",
    "Dataset",
    "Flip",
    "Images",
    "LabelledText",
    "Mixture",
    "NextTokenPacked",
    "NextTokenWindows",
    "PackedText",
    "PadCrop",
    "Resize",
    "SentencePairs",
    "SentencePieceFile",
    "Sentences",
    "Source",
    "TFDSDataset",
    "TextWindows",
    "Tokenizer",
    "TokenizerFile",
    "Trained",
    "Transform",
    "Unigram",
    "WordPiece",
    "eval_batches",
    "fingerprint",
    "train_batches",
]
