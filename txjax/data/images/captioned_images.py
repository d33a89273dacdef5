"""Images with captions."""

import dataclasses
import hashlib
import logging

import jax
import numpy as np
from jaxtyping import Bool, Float32, Int

from txjax.data.dataset import Example, Source, describing_field
from txjax.data.images.captions import Captions, CaptionTemplate
from txjax.data.images.image_data import ImageData
from txjax.data.images.image_reader import ImageReader
from txjax.data.images.image_records import ImageRecords
from txjax.data.text.framed_rows import FramedRows
from txjax.data.tokenizers.tokenizer import Bytes, Tokenizer
from txjax.errors import UserError
from txjax.types import config_field, spec

log = logging.getLogger("txjax")


def _bytes() -> Bytes:
    return Bytes(specials=("[CLS]", "[SEP]"))


@dataclasses.dataclass
class CaptionedImages(ImageData):
    """Images, each with one or several captions.

    An example: image float32 [H W C], see `ImageData`; tokens int32 [L], a caption with the special tokens that the
    tokenizer puts around a text; segments int32 [L], 1, and 0 for the padding at the end; weights float32 [], 1, or 0
    if the image was left out.

    An empty caption is not used, and an image without another one is no example; their number is logged.

    Attributes:
      text: a format string over the set's features, as in `Pairs`; one of them may be a sequence of texts, such as
        `captions/text`, of which each element is a caption.
      captions: which of an image's captions an example has: the "first"; a "random" one, drawn anew in each epoch, to
        train on; or "every" one, each in an example of its own, for `eval.ImageTextRetrieval`.
      length: tokens in an example, L.
      tokenizer: the tokenizer; it must have [CLS] and [SEP], or say itself what stands around texts.
      too_long: what happens to a caption that is longer, with a count in the log: "cut" (it loses its last tokens),
        "drop" (it is not used), "refuse" (an error).
    """

    text: str = describing_field("{caption}")
    captions: str = config_field("first", choices=("first", "random", "every"))
    length: int = describing_field(64, at_least=1)
    tokenizer: Tokenizer = describing_field(factory=_bytes)
    too_long: str = config_field("cut", choices=("cut", "drop", "refuse"))

    def spec(self) -> dict[str, jax.ShapeDtypeStruct]:
        text = {key: spec((self.length,), "int32") for key in ("tokens", "segments")}
        image = {"image": spec(tuple(self.shape), "float32"), "weights": spec((), "float32")}
        return {"id": spec((), "int32")} | image | text

    def vocab(self) -> int | None:
        return self.tokenizer.vocab()

    def check(self) -> None:
        self.rows().check()
        CaptionTemplate(self.text, self.check_images())

    def rows(self) -> FramedRows:
        """What makes rows of texts."""
        return FramedRows(self.tokenizer, self.length)

    def open(self) -> Source:
        self.check()
        source = self.examples()
        source.example(0, 0, np.random.default_rng(0))  # raises for a wrong shape here, not after compilation
        return source

    def examples(self) -> "CaptionedSource":
        """The source of its examples."""
        return CaptionedSource(self)


class CaptionedSource:
    """The captioned images of a split, by index.

    Attributes:
      image_numbers: int64 [N], the number of each example's image in the split.
    """

    def __init__(self, data: CaptionedImages):
        self._data = data
        where = data.record_split
        template = CaptionTemplate(data.text, data.check_images())
        self._captions = Captions(where, template, data.tokenizer)
        usable = usable_captions(data, self._captions)
        record_of = np.repeat(np.arange(self._captions.records), np.diff(self._captions.first))[usable]
        firsts = np.unique(record_of, return_index=True)[1]
        log_images_without_text(data, self._captions.records - len(firsts), self._captions.records)
        self._usable = np.flatnonzero(usable)
        self._starts = np.arange(len(record_of)) if data.captions == "every" else firsts
        last = np.append(self._starts[1:], len(record_of)) if data.captions == "random" else self._starts + 1
        self._counts = last - self._starts
        self.image_numbers = record_of[self._starts]
        image_records = ImageRecords(where, data.image_feature, [], data.corrupt)
        self._reader = ImageReader(data, image_records, len(firsts))
        self._rows = data.rows()
        parts = image_records.fingerprint, self._captions.fingerprint, self._rows.frame, data.captions
        content = repr(parts).encode() + self._usable.tobytes()
        self.fingerprint = hashlib.blake2b(content, digest_size=16).hexdigest()

    def __len__(self) -> int:
        return len(self.image_numbers)

    def example(self, index: int, epoch: int, rng: np.random.Generator) -> Example:
        record = int(self.image_numbers[index])
        image, _ = self._reader.read(record, self._data.transforms, rng)
        weight = np.array(image is not None, np.float32)
        pixels = np.zeros(self._data.shape, np.float32) if image is None else image
        return {"image": pixels, "weights": weight} | self.caption(index, rng)

    def caption(self, index: int, rng: np.random.Generator) -> Example:
        """The row of a caption of an example's image."""
        count = int(self._counts[index])
        chosen = int(rng.integers(count)) if count > 1 else 0
        caption = int(self._usable[self._starts[index] + chosen])
        return self._rows.row(self._captions.ids(int(self.image_numbers[index]), caption))

    def is_text(self, segments: Int[np.ndarray, "L"]) -> Float32[np.ndarray, "L"]:
        """1 for the tokens of the caption in a row, 0 for the special tokens around it and for padding."""
        before, after = map(len, self._rows.frame.marks)
        numbers = np.arange(len(segments))
        return ((numbers >= before) & (numbers < segments.sum() - after)).astype(np.float32)

    def texts(self, indices: Int[np.ndarray, "N"]) -> list[list[str]]:
        """All captions of the images of some examples, also those that are not used."""
        return [self._captions.texts(int(self.image_numbers[index])) for index in indices]


def usable_captions(data: CaptionedImages, captions: Captions) -> Bool[np.ndarray, "C"]:
    """Which captions examples may have. Logs how many are empty or too long.

    Raises:
      UserError: one is too long where that is refused, or none is left.
    """
    place = f"{data.name} {data.split}"
    room = data.rows().room
    empty = captions.sizes == 0
    long = captions.sizes > room
    if empty.any():
        log.warning("%s: %d of %d captions are empty and are left out", place, empty.sum(), len(empty))
    if long.any() and data.too_long == "refuse":
        expected = f"at least {captions.sizes.max() + data.length - room}, the longest caption in {place}"
        hint = f'{long.sum()} are too long; data.too_long = "cut" shortens them, "drop" leaves them out'
        raise UserError("data.length", expected, data.length, hint=hint)
    if long.any():
        action = "are left out" if data.too_long == "drop" else "lose their last tokens"
        log.warning(
            "%s: %d of %d captions are longer than %d tokens and %s", place, long.sum(), len(long), room, action
        )
    usable = ~empty & ~long if data.too_long == "drop" else ~empty
    if not usable.any():
        raise UserError("data.text", f"an image with a caption that fits {data.length} tokens", f"none in {place}")
    return usable


def log_images_without_text(data: CaptionedImages, without: int, count: int) -> None:
    """Logs how many of a split's images are no examples, since no caption of them is used."""
    if without:
        log.warning("%s %s: %d of %d images have no caption and are left out", data.name, data.split, without, count)
