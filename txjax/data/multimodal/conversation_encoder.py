"""Conversations as tokens, with one token in the place of each image."""

import dataclasses
import itertools
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Int32

from txjax.data.multimodal.conversation_templates import ConversationTemplate, Mark, Piece, Turn
from txjax.data.tokenizers.tokenizer import Tokenizer

Run = list[Piece]  # texts that follow each other without a mark between them


class TokenRow(NamedTuple):
    """The tokens of a conversation.

    Attributes:
      ids: the tokens.
      learned: whether a model learns to write each of them.
    """

    ids: Int32[np.ndarray, "N"]
    learned: Bool[np.ndarray, "N"]

    def with_patches(self, image_token: int, patches: int) -> "TokenRow":
        """The row in which the token of each image is there once for each of its patches."""
        counts = np.where(self.ids == image_token, patches, 1)
        return TokenRow(np.repeat(self.ids, counts), np.repeat(self.learned, counts))


@dataclasses.dataclass(frozen=True)
class ConversationEncoder:
    """The tokens of conversations: what the tokenizer puts before a text, and the pieces of the template.

    Texts between two marks are encoded as one text. Its learned tokens are those after the ones that it has in common
    with the text before the answer alone, so a model is asked as it was trained.

    Attributes:
      template: of the conversations.
      tokenizer: the tokenizer.
      marker: the name of its special token for an image.
    """

    template: ConversationTemplate
    tokenizer: Tokenizer
    marker: str

    @property
    def image_token(self) -> int:
        """The id of the token for an image. Raises UserError if the tokenizer has none."""
        return self.tokenizer.special(self.marker)

    def encode(self, conversations: Sequence[Sequence[Turn]]) -> list[TokenRow]:
        """The tokens of conversations.

        Raises:
          UnusableConversation: the template has no form for one of them.
        """
        marks: dict[str | Mark, int | None]
        marks = {Mark.IMAGE: self.image_token, Mark.END: self.template.end_token(self.tokenizer)}
        parts = [_runs(self.template.pieces(turns)) for turns in conversations]
        prefixes = [prefix for runs in parts for run in runs if isinstance(run, list) for prefix in _prefixes(run)]
        encoded = iter(self.tokenizer.encode_batch(prefixes) if prefixes else [])
        opening = TokenRow(np.array(self.tokenizer.opening(), np.int32), np.zeros(len(self.tokenizer.opening()), bool))
        rows = []
        for runs in parts:
            row = [opening]
            for run in runs:
                if isinstance(run, list):
                    row.append(_join_run(run, [next(encoded) for _ in run]))
                else:
                    row.append(TokenRow(np.array([marks[run.content]], np.int32), np.array([run.learned])))
            rows.append(TokenRow(*(np.concatenate(column) for column in zip(*row, strict=True))))
        return rows


def _runs(pieces: Sequence[Piece]) -> list[Run | Piece]:
    """The pieces with texts that follow each other as runs, in which learned and other texts take turns."""
    runs: list[Run | Piece] = []
    for is_mark, members in itertools.groupby(pieces, lambda piece: isinstance(piece.content, Mark)):
        if is_mark:
            runs += members
            continue
        by_learned = itertools.groupby(members, lambda piece: piece.learned)
        runs.append([Piece("".join(str(p.content) for p in texts), learned) for learned, texts in by_learned])
    return runs


def _prefixes(run: Run) -> list[str]:
    """The text of a run up to the end of each of its pieces."""
    return list(itertools.accumulate(str(piece.content) for piece in run))


def _join_run(run: Run, prefixes: list[np.ndarray]) -> TokenRow:
    """The tokens of a run, from those of its prefixes."""
    whole = prefixes[-1].astype(np.int32)
    ends = [_count_common(prefix, whole) for prefix in prefixes]
    counts = np.diff(np.maximum.accumulate(ends), prepend=0)
    return TokenRow(whole, np.repeat([piece.learned for piece in run], counts))


def _count_common(first: np.ndarray, second: np.ndarray) -> int:
    """The number of tokens with which both begin."""
    size = min(len(first), len(second))
    differing = np.flatnonzero(first[:size] != second[:size])
    return int(differing[0]) if len(differing) else size
