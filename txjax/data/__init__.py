"""Datasets as config values; see `docs/data.md`."""

from txjax.data.answers import Answers
from txjax.data.choices import Choices
from txjax.data.completions import Completions
from txjax.data.computed_labels import ComputedLabel, Count, Grouped, Nearest
from txjax.data.dataset import Dataset, Source, TFDSDataset
from txjax.data.detections import Detections
from txjax.data.fingerprint import fingerprint
from txjax.data.geometric import CenterCrop, Flip, PadCrop, RandomCrop, RandomResizedCrop, Resize, ResizeWithin, Stretch
from txjax.data.images import Images
from txjax.data.languages import Bitext, InLanguage
from txjax.data.limits import Limits
from txjax.data.loader import eval_batches, train_batches
from txjax.data.matched_sentences import MatchedSentences
from txjax.data.mixing import CutMix, Mixing, Mixup, OneOf
from txjax.data.mixture import Mixture
from txjax.data.packed import NextTokenPacked, PackedText
from txjax.data.pairs import Pairs
from txjax.data.prompted_choices import PromptedChoices
from txjax.data.prompted_pairs import PromptedPairs
from txjax.data.randaugment import RandAugment
from txjax.data.sentence_piece import SentencePieceFile
from txjax.data.sentences import LabelledText, Sentences
from txjax.data.sliding_windows import SlidingWindows
from txjax.data.subset import Subset
from txjax.data.tasks import Tasks
from txjax.data.temperature import Temperature
from txjax.data.text import NextTokenWindows, SentencePairs, TextWindows
from txjax.data.token_labels import TokenLabels
from txjax.data.tokenizer_folder import TokenizerFolder
from txjax.data.tokenizers import Bytes, Characters, Tokenizer
from txjax.data.trained import BPE, Trained, Unigram, WordPiece
from txjax.data.transforms import Channels, Either, Multiply, RandomErasing, Transform

__all__ = [
    "BPE",
    "Answers",
    "Bitext",
    "Choices",
    "InLanguage",
    "Temperature",
    "TokenLabels",
    "Bytes",
    "CenterCrop",
    "Channels",
    "Characters",
    "Completions",
    "ComputedLabel",
    "Count",
    "CutMix",
    "Dataset",
    "Detections",
    "Either",
    "Flip",
    "Grouped",
    "Images",
    "LabelledText",
    "Limits",
    "MatchedSentences",
    "Mixing",
    "Mixture",
    "Mixup",
    "Multiply",
    "Nearest",
    "NextTokenPacked",
    "NextTokenWindows",
    "OneOf",
    "PackedText",
    "PadCrop",
    "Pairs",
    "PromptedChoices",
    "PromptedPairs",
    "RandAugment",
    "RandomCrop",
    "RandomErasing",
    "RandomResizedCrop",
    "Resize",
    "ResizeWithin",
    "SentencePairs",
    "SentencePieceFile",
    "Sentences",
    "SlidingWindows",
    "Source",
    "Stretch",
    "Subset",
    "TFDSDataset",
    "Tasks",
    "TextWindows",
    "Tokenizer",
    "TokenizerFolder",
    "Trained",
    "Transform",
    "Unigram",
    "WordPiece",
    "eval_batches",
    "fingerprint",
    "train_batches",
]
