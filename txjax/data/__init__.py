"""Datasets as config values; `docs/data.md` tells how they work."""

from txjax.data.dataset import Dataset, Source
from txjax.data.images import Images
from txjax.data.loader import eval_batches, fingerprint, train_batches
from txjax.data.mixing import CutMix, Mixing, Mixup, OneOf
from txjax.data.randaugment import RandAugment
from txjax.data.subset import Subset
from txjax.data.text import NextTokenWindows, SentencePairs, TextWindows
from txjax.data.tokenizers import Bytes, Characters, Tokenizer, TokenizerFile
from txjax.data.transforms import (
    CenterCrop,
    Channels,
    Flip,
    PadCrop,
    RandomErasing,
    RandomResizedCrop,
    Resize,
    Transform,
)

__all__ = [
    "Bytes",
    "CenterCrop",
    "Channels",
    "Characters",
    "CutMix",
    "Dataset",
    "Flip",
    "Images",
    "Mixing",
    "Mixup",
    "NextTokenWindows",
    "OneOf",
    "PadCrop",
    "RandAugment",
    "RandomErasing",
    "RandomResizedCrop",
    "Resize",
    "SentencePairs",
    "Source",
    "Subset",
    "TextWindows",
    "Tokenizer",
    "TokenizerFile",
    "Transform",
    "eval_batches",
    "fingerprint",
    "train_batches",
]
