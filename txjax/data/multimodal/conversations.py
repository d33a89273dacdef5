"""Conversations about images, of which a decoder learns the answers."""

import dataclasses
import hashlib
from pathlib import PurePath
from typing import Any

import jax
import numpy as np
from jaxtyping import Int32

from txjax.data.dataset import Example, RecordDataset, Source, describing_field
from txjax.data.images.clip_images import CLIP_MEAN, CLIP_STD
from txjax.data.images.image_files import UnreadableImage
from txjax.data.images.image_records import Normaliser, check_normalisation
from txjax.data.images.transforms import Transform
from txjax.data.loading.buckets import Bucketed, Lengths, check_buckets
from txjax.data.loading.usable_records import UsableRecords
from txjax.data.multimodal.conversation_encoder import ConversationEncoder
from txjax.data.multimodal.conversation_templates import MARKER, ConversationTemplate, Turn, VicunaTemplate
from txjax.data.multimodal.conversation_tokens import StoredConversations, open_conversations
from txjax.data.multimodal.conversation_turns import StoredTurns, Turns
from txjax.data.multimodal.record_images import ImageStack, RecordImages
from txjax.data.sources.conversation_files import ConversationFiles
from txjax.data.sources.folder_walks import folder_path, is_folder
from txjax.data.sources.record_places import describe_place
from txjax.data.sources.record_source import RecordSource
from txjax.data.tokenizers.tokenizer import Bytes, Tokenizer
from txjax.errors import UserError, require
from txjax.types import config_field, spec


def _bytes() -> Bytes:
    return Bytes(specials=(MARKER, "</s>"))


@dataclasses.dataclass
class Conversations(RecordDataset):
    """Turns of questions and answers with images, as LLaVA learns them (Liu et al. 2023a, section 4.2).

    An example: tokens int32 [L], the conversation, in which each image has `image_tokens` tokens; targets int32 [L],
    the next tokens; segments int32 [L], 1, and 0 for the padding at the end; weights float32 [L], 1 where the target is
    an answer's or the end of one, else 0. image float32 [H W C], (pixels / 255 - mean) / std, or, if a conversation may
    have several, images float32 [I H W C]; zeros where there is none.

    LLaVA's own JSON beside images is the source `ConversationFiles`, also of a path.

    Attributes:
      turns: what makes the turns of a record: `StoredTurns`, or `QuestionTurns` of other features.
      template: the text of the turns: `PlainTemplate`, `VicunaTemplate`.
      image_feature: the name of the set's feature with an image, or with a sequence of images. If empty, none is read.
      length: positions L, the images' included.
      tokenizer: the tokenizer. What it puts before a text stands before a conversation.
      marker: the name of its special token that stands for a patch of an image.
      image_tokens: tokens of each image, as many as the tower gives patches.
      most_images: the most images of a conversation, I.
      shape: height, width and channels of an image, after the transforms.
      mean, std: of the pixels (/ 255), one for all channels or one per channel. The default is CLIP's.
      transforms: of each image: `(PadSquare(), Stretch(336))` in LLaVA 1.5, `(Resize(224), CenterCrop(224))` in 1.0.
      too_long: what happens to a conversation with more tokens, with a count in the log: "refuse" (an error), "drop"
        (it is left out), "cut" (it loses its last tokens).
      unusable: what happens to a record whose images or turns can't be used: "refuse" is an error that names it; "skip"
        leaves it out, with a count in the log. One whose image turns out to be damaged is an example of weight 0.
      buckets: other lengths that a batch may have, see `Sentences`.
      sort_batches: the number of batches whose examples are sorted by length together; 1 leaves the order as it is.
        Texts without an image are short, so they are in batches of their own.
    """

    turns: Turns = describing_field(factory=StoredTurns)
    template: ConversationTemplate = describing_field(factory=VicunaTemplate)
    image_feature: str = describing_field("images")
    length: int = describing_field(2048, at_least=2)
    tokenizer: Tokenizer = describing_field(factory=_bytes)
    marker: str = describing_field(MARKER)
    image_tokens: int = describing_field(576, at_least=1)
    most_images: int = describing_field(1, at_least=1)
    shape: tuple[int, int, int] = describing_field((336, 336, 3))
    mean: tuple[float, ...] = describing_field(CLIP_MEAN)
    std: tuple[float, ...] = describing_field(CLIP_STD)
    transforms: tuple[Transform, ...] = ()
    too_long: str = config_field("refuse", choices=("refuse", "drop", "cut"))
    unusable: str = config_field("refuse", choices=("refuse", "skip"))
    buckets: tuple[int, ...] = ()
    sort_batches: int = config_field(1, at_least=1)

    def spec(self) -> dict[str, jax.ShapeDtypeStruct]:
        specs = {key: spec((self.length,), "int32") for key in ("tokens", "targets", "segments")}
        specs |= {"id": spec((), "int32"), "weights": spec((self.length,), "float32")}
        if self.most_images > 1:
            return specs | {"images": spec((self.most_images, *self.shape), "float32")}
        return specs | {"image": spec(tuple(self.shape), "float32")}

    def source_at(self, path: str) -> RecordSource:
        if is_folder(path):
            return ConversationFiles(f"{folder_path(path)}/*.json")
        if {".json", ".jsonl"} & set(PurePath(path).suffixes):
            return ConversationFiles(path)
        return super().source_at(path)

    def vocab(self) -> int | None:
        return self.tokenizer.vocab()

    def encoder(self) -> ConversationEncoder:
        """What makes tokens of the turns."""
        return ConversationEncoder(self.template, self.tokenizer, self.marker)

    def images(self, features: Any) -> RecordImages:
        """How the images of records are read.

        Args:
          features: the set's, of TFDS.
        """
        return RecordImages(self.image_feature, features)

    def check(self) -> None:
        self.tokenizer.check()
        self.tokenizer.special(self.marker)
        self.template.end_token(self.tokenizer)
        features = self.record_split.check()
        self.turns.features(features)
        self.images(features).check()
        if self.image_feature:
            require("PIL", "pillow", "data.name")
        check_normalisation(self.mean, self.std, self.shape[2])
        for transform in self.transforms:
            transform.check()
        check_buckets(self.buckets, self.length, self.sort_batches)
        if self.length <= self.image_tokens:
            expected = f"more than data.image_tokens = {self.image_tokens}, so that there is place for an answer"
            raise UserError("data.length", expected, self.length)

    def open(self) -> Source:
        self.check()
        return ConversationSource(self)


class ConversationSource(Bucketed):
    """The conversations of a split that are usable and short enough, in the order of its records."""

    def __init__(self, data: Conversations):
        self._data = data
        where = data.record_split
        features = where.check()
        images = data.images(features)
        names = {*data.turns.features(features), *images.names()}
        self._records = where.open(sorted(names), images.encoded())
        self._files = where.open(["file"]) if "file" in features else None
        self._stored = StoredConversations(self._records, data.turns.function(features), images)
        self._tokens = open_conversations(self._stored, data.split, data.turns, data.encoder())
        self._image_token = data.encoder().image_token
        self._stack = ImageStack(
            data.most_images, data.shape, data.transforms, Normaliser(data.mean, data.std, *data.shape[1:])
        )
        title = where.title
        self._usable = UsableRecords(title, data.unusable, data.too_long, self.place, "conversations", "tokens")
        self._sizes = self._count_tokens()
        self._kept = self._choose_records()
        content = repr((self._tokens.fingerprint, data.image_tokens)).encode() + self._kept.tobytes()
        self.fingerprint = hashlib.blake2b(content, digest_size=16).hexdigest()
        kept_sizes = np.minimum(self._sizes[self._kept], data.length).astype(np.int32)
        self.lengths = (Lengths(kept_sizes, dict.fromkeys(("tokens", "targets", "segments", "weights"), 0)),)
        self.buckets = tuple((size,) for size in (*data.buckets, data.length))
        self.sort_batches = data.sort_batches

    def __len__(self) -> int:
        return len(self._kept)

    def place(self, number: int) -> str:
        """The set, the file and the number of a record, for messages."""
        return describe_place(self._records, number, self._files)

    @property
    def image_counts(self) -> Int32[np.ndarray, "N"]:
        """The images of each example."""
        return self._tokens.images[self._kept]

    def turns(self, index: int) -> list[Turn]:
        """The turns of an example."""
        number = int(self._kept[index])
        return self._stored.turns(number, self._records[number])

    def texts(self, indices: np.ndarray) -> list[tuple[str, str]]:
        """The last question of some examples and its answer."""
        last = [self.turns(int(index))[-1] for index in indices]
        return [(turn.question, turn.answer or "") for turn in last]

    def example(self, index: int, epoch: int, rng: np.random.Generator) -> Example:
        data = self._data
        number = int(self._kept[index])
        example = {key: np.zeros(x.shape, x.dtype) for key, x in data.spec().items() if key != "id"}
        if self._tokens.images[number]:
            try:
                pixels = self._stored.images.decode(self._records[number])
            except UnreadableImage as error:
                self._usable.leave_out(number, str(error))
                return example
            images = self._stack.build(pixels, self.place(number), rng)
            example |= {"images": images} if data.most_images > 1 else {"image": images[0]}
        row = self._tokens.row(number).with_patches(self._image_token, data.image_tokens)
        size = min(len(row.ids) - 1, data.length)
        example["tokens"][:size] = row.ids[:size]
        example["targets"][:size] = row.ids[1 : size + 1]
        example["segments"][:size] = 1
        example["weights"][:size] = row.learned[1 : size + 1]
        return example

    def _count_tokens(self) -> np.ndarray:
        """The tokens of each record that a model reads, int64 [N]: without the last one, which is a target alone."""
        patches = self._tokens.images.astype(np.int64) * (self._data.image_tokens - 1)
        return np.maximum(np.diff(self._tokens.documents) + patches - 1, 0)

    def _choose_records(self) -> np.ndarray:
        """The numbers of the records that are examples, int64 [P]."""
        data = self._data
        most = data.most_images
        many = np.flatnonzero(self._tokens.images > most).tolist()
        faults = {
            number: f"{self._tokens.images[number]} images, more than data.most_images = {most}" for number in many
        }
        usable = self._usable.without_unusable(np.arange(len(self._sizes)), faults | self._tokens.faults)
        limits = f"length = {data.length} tokens"
        fits = self._sizes <= data.length
        kept = self._usable.without_long(usable, fits, limits, lambda number: f"{self._sizes[number]} tokens")
        without_answer = {
            number: f"no place for its answer in {limits}"
            for number in kept[~fits[kept]]
            if not self._has_answer(number)
        }
        answered = self._usable.without_unusable(kept, without_answer)
        if not len(answered):
            expected = f"at least one conversation with place for its answer in {limits}"
            raise UserError("data", expected, f"none in {data.record_split.title}")
        return answered

    def _has_answer(self, number: int) -> bool:
        """Whether a token of an answer is left of a record that is cut."""
        row = self._tokens.row(number).with_patches(self._image_token, self._data.image_tokens)
        return bool(row.learned[1 : self._data.length + 1].any())
