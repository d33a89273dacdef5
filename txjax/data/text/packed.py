"""Documents packed into windows, whole if they fit, by Grain's best-fit packer; the plan is cached."""

import dataclasses
from pathlib import Path

import jax
import numpy as np

from txjax.data.dataset import Example, Source
from txjax.data.loading import disk_cache
from txjax.data.text.text_windows import Text
from txjax.data.text.token_cache import Tokens
from txjax.types import spec

LAYOUT = 1  # version of the plan's files; plans of other versions are not used
BINS = 128  # windows that the packer fills at a time; more give less padding


@dataclasses.dataclass
class PackedText(Text):
    """Windows of as many whole documents as fit; a document longer than a window is cut into pieces of its length.

    The documents of a window depend only on their lengths and are the same in every epoch. That has no effect on
    training, because attention and loss do not cross documents.

    An example: tokens int32 [L]; segments int32 [L], the document's number in the window from 1, and 0 for the
    padding at the end; positions int32 [L], from 0 in each document or piece; weights float32 [L], 1, and 0 for the
    padding.
    """

    def spec(self) -> dict[str, jax.ShapeDtypeStruct]:
        keys = {"tokens": "int32", "weights": "float32", "segments": "int32", "positions": "int32"}
        return {"id": spec((), "int32")} | {key: spec((self.length,), dtype) for key, dtype in keys.items()}

    def open(self) -> Source:
        self.check()
        return PackedSource(self, self.tokens())

    def reach(self) -> int:
        """The number of tokens after a window's last one that its examples need."""
        return 0


@dataclasses.dataclass
class NextTokenPacked(PackedText):
    """Packed documents with `targets` int32 [L], the next token of each position.

    A document's last token is only a target, so every position except padding has weight 1.
    """

    def spec(self) -> dict[str, jax.ShapeDtypeStruct]:
        return super().spec() | {"targets": spec((self.length,), "int32")}

    def reach(self) -> int:
        return 1


class PackedSource:
    """The packed windows of a split, by index."""

    def __init__(self, text: PackedText, tokens: Tokens):
        self._text = text
        self._tokens = tokens
        made_from = {
            "layout": LAYOUT,
            "tokens": tokens.fingerprint,
            "length": text.length,
            "reach": text.reach(),
            "bins": BINS,
        }
        plan = disk_cache.get_or_build(
            "packs", made_from, lambda aside: _plan(aside, text, tokens), lambda folder: folder
        )
        self.fingerprint = plan.name
        # Plain arrays over the maps: slicing a memmap costs more than reading.
        self._pieces = np.asarray(np.memmap(plan / "pieces.bin", np.int64, mode="r")).reshape(-1, 2)
        self._windows = np.asarray(np.memmap(plan / "windows.bin", np.int64, mode="r"))

    def __len__(self) -> int:
        return len(self._windows) - 1

    def example(self, index: int, epoch: int, rng: np.random.Generator) -> Example:
        example = {key: np.zeros(s.shape, s.dtype) for key, s in self._text.spec().items() if key != "id"}
        begin = 0
        for number, (start, size) in enumerate(self._pieces[self._windows[index] : self._windows[index + 1]].tolist()):
            here = slice(begin, begin + size)
            example["tokens"][here] = self._tokens.read(start, size)
            if "targets" in example:
                example["targets"][here] = self._tokens.read(start + 1, size)
            example["segments"][here] = number + 1
            example["positions"][here] = np.arange(size)
            example["weights"][here] = 1
            begin += size
        return example


class _Lengths:
    """The input of the packer: an array of each piece's length, whose values are the piece's index."""

    def __init__(self, sizes: np.ndarray):
        self._sizes = sizes

    def __len__(self) -> int:
        return len(self._sizes)

    def __getitem__(self, number: int) -> dict[str, np.ndarray]:
        return {"tokens": np.full(self._sizes[number], number)}


def _plan(folder: Path, text: PackedText, tokens: Tokens) -> None:
    """Writes pieces.bin, int64 [P 2] (first token and size, by window), and windows.bin, int64 [N + 1]."""
    import grain  # slow to import, and not needed by configs
    from grain.experimental import BestFitPackIterDataset

    pieces = cut_documents(tokens.documents, text.length, text.reach())
    # One thread: the packer reads in order, so the same lengths give the same plan.
    read = grain.MapDataset.source(_Lengths(pieces[:, 1])).to_iter_dataset(grain.ReadOptions(0, 0))
    packed = BestFitPackIterDataset(
        read,
        length_struct={"tokens": text.length},
        num_packing_bins=BINS,
        shuffle_bins=False,
    )
    count = 0
    with (folder / "pieces.bin").open("wb") as file, (folder / "windows.bin").open("wb") as windows:
        np.zeros(1, np.int64).tofile(windows)
        with disk_cache.progress(f"packing of {text.name} {text.split}", len(pieces)) as advance:
            for window in packed:
                begins = (window["tokens_positions"] == 0) & (window["tokens_segment_ids"] > 0)
                numbers = window["tokens"][begins]
                pieces[numbers].tofile(file)
                count += len(numbers)
                np.array(count).tofile(windows)
                advance(len(numbers))
    assert count == len(pieces)


def cut_documents(documents: np.ndarray, length: int, reach: int, stride: int | None = None) -> np.ndarray:
    """The pieces of at most `length` tokens, int64 [P 2]: first token and size, in the text's order.

    Args:
      documents: int64 [D + 1], the starts of the documents and the end of the last.
      reach: the number of tokens at a document's end that are only targets.
      stride: tokens from the start of a piece to the start of its document's next one. If None, `length`.
    """
    stride = stride or length
    starts = documents[:-1]
    sizes = np.maximum(np.diff(documents) - reach, 0)
    counts = np.where(sizes > 0, 1 + np.maximum(-(-(sizes - length) // stride), 0), 0)
    document = np.repeat(np.arange(len(sizes)), counts)
    offsets = stride * (np.arange(len(document)) - np.repeat(np.cumsum(counts) - counts, counts))
    return np.stack([starts[document] + offsets, np.minimum(sizes[document] - offsets, length)], axis=1)
