"""Images and texts that search each other, and how often each finds what belongs to it."""

import dataclasses
import functools
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple, Protocol, runtime_checkable

import numpy as np
from jaxtyping import Bool, Float, Int

from txjax.eval.results import COUNT, GIVEN, ID, Rows

OfBlock = Callable[[slice], Float[np.ndarray, "B C"]]
RightOf = Callable[[slice], Bool[np.ndarray, "B C"]]

ROWS = 1024  # queries compared with all candidates at a time


@runtime_checkable
class Similarities(Protocol):
    """How near images and texts are, a block of queries at a time."""

    def of_images(self, block: slice) -> Float[np.ndarray, "B T"]:
        """The similarities of some images to all texts."""
        ...

    def of_texts(self, block: slice) -> Float[np.ndarray, "B N"]:
        """The similarities of some texts to all images."""
        ...


class TextSearch(NamedTuple):
    """What a text finds among all images.

    Attributes:
      similarity: to each image.
      is_right: whether the text is one of the image's.
    """

    similarity: Float[np.ndarray, "N"]
    is_right: Bool[np.ndarray, "N"]

    @property
    def order(self) -> Int[np.ndarray, "N"]:
        """The images, the most similar first."""
        return np.argsort(-self.similarity, kind="stable")

    @property
    def rank(self) -> int:
        """Of the most similar right image, from 1; a wrong one that is as similar is before it."""
        best = self.similarity[self.is_right].max()
        return 1 + int((~self.is_right & ~(self.similarity < best)).sum())


@dataclasses.dataclass(frozen=True)
class Gallery:
    """Images with their texts.

    Attributes:
      numbers: int [N], of the images in their set.
      first: int [N], the index of each image's first text.
      owners: int [T], the index of each text's image.
      contents: int [T], equal for texts of equal tokens.
      belongs: bool [N C], sparse: whether a text of this content is one of the image.
    """

    numbers: Int[np.ndarray, "N"]
    first: Int[np.ndarray, "N"]
    owners: Int[np.ndarray, "T"]
    contents: Int[np.ndarray, "T"]
    belongs: Any

    @classmethod
    def of(cls, image_numbers: Int[np.ndarray, "T"], tokens: Int[np.ndarray, "T L"]) -> "Gallery":
        """The gallery of texts, by the number of each one's image, which may have several, and its tokens."""
        numbers, first, owners = np.unique(image_numbers, return_index=True, return_inverse=True)
        contents = np.unique(tokens, axis=0, return_inverse=True)[1].reshape(-1)
        size = len(numbers), 1 + contents.max(initial=0)
        import scipy.sparse  # slow to import

        belongs = scipy.sparse.csr_array((np.ones(len(owners), bool), (owners, contents)), shape=size)
        return cls(numbers, first, owners, contents, belongs)

    @property
    def is_twin(self) -> Bool[np.ndarray, "T"]:
        """Whether a text is that of several images."""
        return self.belongs.astype(np.int64).sum(0)[self.contents] > 1  # type: ignore[no-any-return]

    def right_texts(self, block: slice) -> Bool[np.ndarray, "B T"]:
        """Which texts are right for some images."""
        return self.belongs[block].toarray()[:, self.contents]  # type: ignore[no-any-return]

    def right_images(self, block: slice) -> Bool[np.ndarray, "B N"]:
        """Which images are right for some texts."""
        return self._by_content[self.contents[block]].toarray()  # type: ignore[no-any-return]

    @functools.cached_property
    def _by_content(self) -> Any:
        """`belongs` by content."""
        return self.belongs.T.tocsr()

    def search(self, text: int, similarities: Similarities) -> TextSearch:
        """What a text finds."""
        block = slice(text, text + 1)
        return TextSearch(similarities.of_texts(block)[0], self.right_images(block)[0])

    def recalls(self, at: tuple[int, ...], similarities: Similarities) -> Rows:
        """The recalls of each image, and the sums and counts of its texts' recalls."""
        rows = {ID: self.numbers, GIVEN: self.numbers}
        texts_ahead = count_wrong_ahead(len(self.numbers), similarities.of_images, self.right_texts)
        images_ahead = count_wrong_ahead(len(self.owners), similarities.of_texts, self.right_images)
        counts = np.bincount(self.owners, minlength=len(self.numbers))
        for k in at:
            rows[f"image_to_text_r{k}"] = texts_ahead < k
            rows[f"text_to_image_r{k}"] = np.bincount(self.owners, images_ahead < k, len(self.numbers))
            rows[f"text_to_image_r{k}{COUNT}"] = counts
        return rows


def count_wrong_ahead(queries: int, similarity_of: OfBlock, right_of: RightOf) -> Int[np.ndarray, "N"]:
    """How many wrong candidates are at least as near to each query as its nearest right one.

    Args:
      queries: their number N.
      similarity_of: the similarities of the queries of a slice to all candidates, float32 [B C].
      right_of: which candidates are right for the queries of a slice, bool [B C].
    """

    def counts() -> Iterator[np.ndarray]:
        for start in range(0, queries, ROWS):
            block = slice(start, start + ROWS)
            similarity = similarity_of(block)
            right = right_of(block)
            best = np.where(right, similarity, -np.inf).max(-1, keepdims=True)
            yield (~right & ~(similarity < best)).sum(-1)  # what isn't a number is never right

    return np.concatenate([*counts()]) if queries else np.zeros(0, np.int64)
