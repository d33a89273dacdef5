"""Datasets as config values; see `docs/data.md`."""

from typing import TYPE_CHECKING

from txjax.lazy_names import import_lazily

if TYPE_CHECKING:
    from txjax.data.audio.audio_checks import AudioChecks
    from txjax.data.audio.chained import Chained
    from txjax.data.audio.labelled_audio import LabelledAudio
    from txjax.data.audio.speed import Speed
    from txjax.data.audio.text_normalization import ENGLISH_DIGITS, TextNormalization
    from txjax.data.audio.utterances import Utterances
    from txjax.data.audio.waveform_mixing import WaveformMixup
    from txjax.data.dataset import Dataset, RecordDataset, Source
    from txjax.data.images.captioned_images import CaptionedImages
    from txjax.data.images.clip_images import CLIP_MEAN, CLIP_STD, PadSquare
    from txjax.data.images.detections import Detections
    from txjax.data.images.geometric import (
        CenterCrop,
        Flip,
        PadCrop,
        RandomCrop,
        RandomResizedCrop,
        Resize,
        ResizeWithin,
        Stretch,
    )
    from txjax.data.images.images import Images
    from txjax.data.images.mixing import CutMix, Mixing, Mixup, OneOf
    from txjax.data.images.randaugment import RandAugment
    from txjax.data.images.transforms import Channels, Either, Multiply, RandomErasing, Transform
    from txjax.data.loading.alternating_tasks import AlternatingTasks
    from txjax.data.loading.batch_readers import Portion
    from txjax.data.loading.buckets import LengthShares
    from txjax.data.loading.fingerprint import fingerprint
    from txjax.data.loading.limits import Limits
    from txjax.data.loading.loader import eval_batches, portioned_batches
    from txjax.data.loading.mixture import Mixture
    from txjax.data.loading.task_draws import LinearRatios
    from txjax.data.loading.tasks import Tasks
    from txjax.data.loading.temperature import Temperature
    from txjax.data.loading.train_batches import train_batches
    from txjax.data.multimodal.caption_choices import CaptionChoices
    from txjax.data.multimodal.conversation_templates import (
        ConversationTemplate,
        PlainTemplate,
        Turn,
        VicunaTemplate,
    )
    from txjax.data.multimodal.conversation_turns import QuestionTurns, StoredTurns, Turns
    from txjax.data.multimodal.conversations import Conversations
    from txjax.data.multimodal.image_questions import ImageQuestions
    from txjax.data.multimodal.matched_captions import MatchedCaptions
    from txjax.data.multimodal.questions import (
        AlternatingQuestions,
        BalancedPresenceQuestions,
        ListingQuestions,
        PresenceQuestions,
        Questions,
        TemplateQuestions,
    )
    from txjax.data.multimodal.shuffled_images import ShuffledImages
    from txjax.data.sources.arrow_files import ArrowFiles, ParquetFiles
    from txjax.data.sources.conversation_files import ConversationFiles
    from txjax.data.sources.file_source import FileSource
    from txjax.data.sources.json_arrays import JSONArrays
    from txjax.data.sources.json_lines import JSONLines
    from txjax.data.sources.media_folders import AudioFolder, ImageFolder
    from txjax.data.sources.python_rows import PythonRows
    from txjax.data.sources.record_source import RecordSource
    from txjax.data.sources.selection import AllBut, Only
    from txjax.data.sources.tables import Tables
    from txjax.data.sources.text_blocks import TextFiles
    from txjax.data.sources.tfds_source import TFDS
    from txjax.data.sources.web_dataset import WebDataset
    from txjax.data.text.answers import Answers
    from txjax.data.text.choices import Choices
    from txjax.data.text.completions import Completions
    from txjax.data.text.labelled_text import LabelledText, ScoredText
    from txjax.data.text.languages import Bitext, InLanguage
    from txjax.data.text.matched_sentences import MatchedSentences
    from txjax.data.text.packed import NextTokenPacked, PackedText
    from txjax.data.text.pairs import Pairs
    from txjax.data.text.prompted_choices import PromptedChoices
    from txjax.data.text.prompted_pairs import PromptedPairs
    from txjax.data.text.sentences import Sentences
    from txjax.data.text.sliding_windows import SlidingWindows
    from txjax.data.text.text_windows import NextTokenWindows, SentencePairs, TextWindows
    from txjax.data.text.token_labels import TokenLabels
    from txjax.data.tfds.computed_labels import ByName, ByText, ComputedLabel, Count, Grouped, Nearest
    from txjax.data.tfds.subset import Subset
    from txjax.data.tfds.tags import Tags
    from txjax.data.tokenizers.sentence_piece import SentencePieceFile
    from txjax.data.tokenizers.tokenizer import Bytes, Characters, Tokenizer
    from txjax.data.tokenizers.tokenizer_folder import TokenizerFolder
    from txjax.data.tokenizers.trained_tokenizers import BPE, Trained, Unigram, WordPiece
else:
    __getattr__ = import_lazily(__name__)

__all__ = [
    "BPE",
    "TFDS",
    "ArrowFiles",
    "AudioFolder",
    "Bytes",
    "CaptionedImages",
    "CenterCrop",
    "Characters",
    "Choices",
    "Completions",
    "CutMix",
    "Dataset",
    "Detections",
    "Flip",
    "ImageFolder",
    "Images",
    "JSONLines",
    "LabelledAudio",
    "LabelledText",
    "Mixture",
    "Mixup",
    "NextTokenPacked",
    "NextTokenWindows",
    "PackedText",
    "PadCrop",
    "Pairs",
    "ParquetFiles",
    "PythonRows",
    "Questions",
    "RandAugment",
    "RandomCrop",
    "RandomErasing",
    "RandomResizedCrop",
    "Resize",
    "SentencePairs",
    "SentencePieceFile",
    "Sentences",
    "Tables",
    "Tasks",
    "TextFiles",
    "TextNormalization",
    "TextWindows",
    "TokenLabels",
    "Tokenizer",
    "TokenizerFolder",
    "Trained",
    "Transform",
    "Unigram",
    "Utterances",
    "WebDataset",
    "WordPiece",
]
