"""The cache of the tokens of a split's conversations, and of why some of its records are unusable.

A cache is a folder `conversations/KEY` under the cache directory:

    tokens.bin     uint32: all tokens, record after record, with one for each image
    learned.bin    bool: whether a model learns to write each of them
    documents.bin  int64: the start of each record in these, and the end of the last one
    images.bin     int32: the images of each record
    faults.json    why records are unusable, by their numbers
"""

import dataclasses
import functools
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Int32, Int64

from txjax.data.loading import disk_cache
from txjax.data.multimodal.conversation_encoder import ConversationEncoder, TokenRow
from txjax.data.multimodal.conversation_templates import MARKER, Mark, Turn, UnusableConversation
from txjax.data.multimodal.conversation_turns import ReadTurns, Turns
from txjax.data.multimodal.record_images import RecordImages, image_name
from txjax.data.sources.record_source import Records

LAYOUT = 1  # version of the files; caches of other versions are not used
BATCH = 128  # records encoded at a time, which bounds the memory
EMPTY = TokenRow(np.zeros(0, np.int32), np.zeros(0, bool))


@dataclasses.dataclass(frozen=True)
class ConversationTokens:
    """The tokens of a split.

    Attributes:
      rows: of all records, one after the other, on disk.
      documents: the start of each record's tokens, and the end of the last one's. An unusable record has none.
      images: the number of images of each record.
      faults: why records are unusable, by their numbers.
      fingerprint: a hash of the records, the template, the turns and the tokenizer.
    """

    rows: TokenRow
    documents: Int64[np.ndarray, "N+1"]
    images: Int32[np.ndarray, "N"]
    faults: dict[int, str]
    fingerprint: str

    def row(self, number: int) -> TokenRow:
        """The tokens of a record, with one for each image."""
        span = slice(*self.documents[number : number + 2].tolist())
        return TokenRow(self.rows.ids[span].astype(np.int32), self.rows.learned[span])


@dataclasses.dataclass(frozen=True)
class StoredConversations:
    """The conversations of the records of a split.

    Attributes:
      records: with the turns' features and the files of the images.
      read_turns: of a record.
      images: of a record.
    """

    records: Records
    read_turns: ReadTurns
    images: RecordImages

    def turns(self, number: int, record: dict[str, Any]) -> list[Turn]:
        """The turns of a record. Raises UnusableConversation for a record that has none."""
        turns = self.read_turns(number, record)
        for count, turn in enumerate(turns, 1):
            if turn.answer is None or not turn.answer.strip():
                raise UnusableConversation(f"answer {count} is empty")
            if MARKER in turn.answer:
                raise UnusableConversation(f"answer {count} has the marker {MARKER}")
        return turns

    def check_images(self, record: dict[str, Any], markers: int) -> None:
        """Raises UnusableConversation unless there are as many images as markers, all with content."""
        images = self.images.files(record)
        if len(images) != markers:
            plurals = ["" if count == 1 else "s" for count in (markers, len(images))]
            raise UnusableConversation(f"{markers} marker{plurals[0]} {MARKER} and {len(images)} image{plurals[1]}")
        for count, content in enumerate(images):
            if not content:
                raise UnusableConversation(f"{image_name(record, count)}: the file is missing or empty")


def open_conversations(
    stored: StoredConversations, split: str, turns: Turns, encoder: ConversationEncoder
) -> ConversationTokens:
    """The tokens of a split's conversations, from the cache; builds it if it is missing or damaged.

    Args:
      turns: what makes them, for the cache's key.
    """
    made_from = {
        "layout": LAYOUT,
        "split": split,
        "records": stored.records.fingerprint,
        "images": stored.images.feature,
        "turns": repr(turns),
        "template": repr(encoder.template),
        "tokenizer": encoder.tokenizer.fingerprint(),
        "marker": encoder.marker,
    }
    build = functools.partial(_build, stored, split, encoder)
    return disk_cache.get_or_build("conversations", made_from, build, _load)


def _build(stored: StoredConversations, split: str, encoder: ConversationEncoder, folder: Path) -> None:
    """Encodes all records into `folder`."""
    records = stored.records
    sizes = [0]
    images = []
    faults: dict[int, str] = {}
    with (
        (folder / "tokens.bin").open("wb") as tokens,
        (folder / "learned.bin").open("wb") as learned,
        disk_cache.progress(f"conversations of {records.name} {split}", len(records)) as advance,
    ):
        for start in range(0, len(records), BATCH):
            batch = records.read(start, min(start + BATCH, len(records)))
            conversations: dict[int, Sequence[Turn]] = {}
            for number, record in enumerate(batch, start):
                images.append(len(stored.images.files(record)))
                try:
                    turns = stored.turns(number, record)
                    marks = [piece.content for piece in encoder.template.pieces(turns)]
                    stored.check_images(record, marks.count(Mark.IMAGE))
                    conversations[number] = turns
                except UnusableConversation as error:
                    faults[number] = str(error)
            rows = dict(zip(conversations, encoder.encode(list(conversations.values())), strict=True))
            for number in range(start, start + len(batch)):
                row = rows.get(number, EMPTY)
                row.ids.astype(np.uint32).tofile(tokens)
                row.learned.tofile(learned)
                sizes.append(len(row.ids))
            advance(len(batch))
    np.cumsum(sizes, dtype=np.int64).tofile(folder / "documents.bin")
    np.array(images, np.int32).tofile(folder / "images.bin")
    (folder / "faults.json").write_text(json.dumps(faults), encoding="utf-8")


def _load(folder: Path) -> ConversationTokens:
    """Opens a cache. Raises ValueError or OSError if it is damaged."""
    documents = np.fromfile(folder / "documents.bin", np.int64)
    ids, learned = (
        np.asarray(np.memmap(folder / name, kind, mode="r")) if documents[-1] else np.zeros(0, kind)
        for name, kind in (("tokens.bin", np.uint32), ("learned.bin", np.bool_))
    )
    if not len(ids) == len(learned) == documents[-1]:
        raise ValueError("documents.bin doesn't match the other files")
    faults = json.loads((folder / "faults.json").read_text(encoding="utf-8"))
    images = np.fromfile(folder / "images.bin", np.int32)
    by_number = {int(number): fault for number, fault in faults.items()}
    return ConversationTokens(TokenRow(ids, learned), documents, images, by_number, folder.name)
