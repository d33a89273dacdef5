"""The parts that special tokens play in texts, and the tokens that stand around a text or a pair of texts."""

import dataclasses
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

# The names of special tokens where no file says which they are, the usual ones first.
NAMES = {
    "bos": ("<|begin_of_text|>", "<s>", "<bos>", "[BOS]", "[START]"),
    "eos": ("<|endoftext|>", "<|end_of_text|>", "</s>", "<eos>", "[EOS]", "[END]", "<end>"),
    "pad": ("[PAD]", "<pad>"),
    "unk": ("[UNK]", "<unk>"),
    "mask": ("[MASK]", "<mask>"),
    "cls": ("[CLS]",),
    "sep": ("[SEP]",),
}


@dataclasses.dataclass(frozen=True)
class Roles:
    """The ids of special tokens by the parts that they play; None, or (), where a tokenizer has none.

    Attributes:
      bos: begins a text.
      eos: all that end a text; data end their texts with the first one.
      pad: fills the rest of a row.
      unk: stands for text outside the vocabulary.
      mask: hides a token.
      cls, sep: stand before and after a sentence, in BERT's form.
    """

    bos: int | None = None
    eos: tuple[int, ...] = ()
    pad: int | None = None
    unk: int | None = None
    mask: int | None = None
    cls: int | None = None
    sep: int | None = None

    @property
    def beginning(self) -> int | None:
        """The token that stands for an empty text: `bos`, or the first `eos`, as for GPT-2."""
        return self.bos if self.bos is not None or not self.eos else self.eos[0]


def roles_by_name(id_of: Callable[[str], int | None]) -> Roles:
    """The roles that the usual names have. `id_of` returns the id of a name, or None."""
    ids = {role: next((i for name in names if (i := id_of(name)) is not None), None) for role, names in NAMES.items()}
    eos = ids.pop("eos")
    return Roles(**ids, eos=() if eos is None else (eos,))


class Row(NamedTuple):
    """Texts with the special tokens around them.

    Attributes:
      ids: the tokens, int32 [N].
      types: the number of the sentence for the model (`token_type_ids`), int32 [N].
      texts: the number of the text that a token is of, from 1; 0 for special tokens; int32 [N].
    """

    ids: np.ndarray
    types: np.ndarray
    texts: np.ndarray


@dataclasses.dataclass(frozen=True)
class Frame:
    """The special tokens around one text, or around two.

    Attributes:
      marks: the ids before the first text, after it, and, of a pair, after the second one.
      mark_types: the types of these tokens.
      text_types: the type of each text's tokens.
    """

    marks: tuple[tuple[int, ...], ...]
    mark_types: tuple[tuple[int, ...], ...]
    text_types: tuple[int, ...]

    @property
    def size(self) -> int:
        """The number of special tokens."""
        return sum(map(len, self.marks))

    @property
    def before(self) -> tuple[int, ...]:
        """The special tokens before the first text."""
        return self.marks[0]

    def start(self, number: int, texts: Sequence[np.ndarray]) -> int:
        """The index of the first token of a text, by its number from 0."""
        return sum(map(len, self.marks[: number + 1])) + sum(map(len, texts[:number]))

    def row(self, texts: Sequence[np.ndarray]) -> Row:
        """The texts, as many as the frame is for, with these tokens."""
        parts: list[tuple[Sequence[int] | np.ndarray, Sequence[int] | np.ndarray, int]]
        parts = [(self.marks[0], self.mark_types[0], 0)]
        for number, text in enumerate(texts):
            parts.append((text, np.full(len(text), self.text_types[number]), number + 1))
            parts.append((self.marks[number + 1], self.mark_types[number + 1], 0))
        ids, types = (np.concatenate([np.asarray(part[column], np.int32) for part in parts]) for column in (0, 1))
        numbers = np.repeat([number for _, _, number in parts], [len(tokens) for tokens, _, _ in parts])
        return Row(ids, types, numbers.astype(np.int32))


def sentence_frame(cls: int, sep: int, texts: int) -> Frame:
    """BERT's `[CLS] A [SEP]`, or `[CLS] A [SEP] B [SEP]` with type 1 from B on (Devlin et al. 2019, 3)."""
    ends = [(sep,)] * texts
    return Frame(((cls,), *ends), ((0,), *((number,) for number in range(texts))), tuple(range(texts)))


def frame_of(ids: Sequence[int], types: Sequence[int], texts: Sequence[int | None]) -> Frame | None:
    """The frame of a row that a library made of texts that aren't empty; None if it is no frame.

    Args:
      texts: the number of the text that each token is of, from 0; None for special tokens.
    """
    count = 1 + max((number for number in texts if number is not None), default=-1)
    marks: list[list[int]] = [[] for _ in range(count + 1)]
    mark_types: list[list[int]] = [[] for _ in range(count + 1)]
    text_types: dict[int, int] = {}
    place = 0
    for token, kind, number in zip(ids, types, texts, strict=True):
        if number is None:
            marks[place].append(token)
            mark_types[place].append(kind)
        elif number + 1 in (place, place + 1) and text_types.setdefault(number, kind) == kind:
            if number + 1 == place and marks[place]:
                return None
            place = number + 1
        else:
            return None
    return Frame(tuple(map(tuple, marks)), tuple(map(tuple, mark_types)), tuple(text_types[i] for i in range(count)))
