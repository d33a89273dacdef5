"""Retrieval of images by texts and of texts by images."""

import dataclasses
from collections.abc import Callable, Iterator
from typing import Any

import jax.numpy as jnp
import numpy as np
import scipy.sparse
from jaxtyping import Bool, Float, Int

from txjax.data import Dataset
from txjax.eval.evaluator import Context, Evaluate, Evaluator
from txjax.eval.features.pair_models import check_pair_model, pair_features
from txjax.eval.results import COUNT, GIVEN, ID, Rows, real_rows
from txjax.objectives import Objective
from txjax.types import Batch, PyTree, UserError

RightOf = Callable[[slice], Bool[np.ndarray, "B C"]]

ROWS = 1024  # queries compared with all candidates at a time


@dataclasses.dataclass
class ImageTextRetrieval(Evaluator):
    """How often what belongs to a query is among the nearest by the cosine (Radford et al. 2021, table 13).

    Each text searches all images, and each image all texts. A text is right for an image that has it, or an equal one,
    as its own; an image may have several (`CaptionedImages(captions="every")`), and one of them is enough. A wrong one
    that is as near as a right one counts as nearer.

    Scores: `image_to_text_rK`, R@K, the share of images with a right text among their K nearest ones, and
    `text_to_image_rK`, the same of texts, for each K; `twins`, the number of texts that are those of several images.
    The intervals' resamples draw images with all of their texts.

    Attributes:
      at: the numbers K.
    """

    at: tuple[int, ...] = (1, 5, 10)

    def required_keys(self, objective: Objective) -> tuple[str, ...]:
        return ("id", "image", "tokens", "segments", "weights")

    def check(self, model: Any, objective: Objective, train: Dataset) -> None:
        if not self.at or min(self.at) < 1:
            raise UserError("eval.at", "one or more numbers of at least 1", self.at)
        check_pair_model(model, objective, self.data)

    def start(self, context: Context) -> Evaluate:
        image_numbers = getattr(context.source, "image_numbers", np.arange(len(context.source)))

        def encode(variables: PyTree, batch: Batch) -> PyTree:
            features = pair_features(context.model, context.objective, variables, batch)
            content = jnp.where(batch["segments"] > 0, batch["tokens"], -1)
            columns = {"image": features.image, "text": features.text, "content": content}
            return {ID: batch["id"], "weights": batch["weights"]} | columns

        program = context.program(encode)

        def evaluate(variables: PyTree, step: int) -> dict[str, float]:
            pairs = real_rows(context.run_batches(program, variables, context.source, self.max_batches))
            gallery = Gallery.of(pairs, image_numbers)
            scores = self.keep_and_rescore(context, gallery.recalls(self.at))
            return scores | {"twins": float(gallery.is_twin.sum())} if scores else {}

        return evaluate


@dataclasses.dataclass(frozen=True)
class Gallery:
    """Images with their texts.

    Attributes:
      numbers: int [N], of the images in their set.
      images: float32 [N E], their features, of unit length.
      texts: float32 [T E], the features of all texts, of unit length.
      owners: int [T], the index of each text's image.
      contents: int [T], equal for texts of equal tokens.
      belongs: bool [N C], sparse: whether a text of this content is one of the image.
    """

    numbers: Int[np.ndarray, "N"]
    images: Float[np.ndarray, "N E"]
    texts: Float[np.ndarray, "T E"]
    owners: Int[np.ndarray, "T"]
    contents: Int[np.ndarray, "T"]
    belongs: Any

    @classmethod
    def of(cls, pairs: Rows, image_numbers: Int[np.ndarray, "all"]) -> "Gallery":
        """The gallery of pairs of an image and a text; several may have one image.

        Args:
          pairs: columns `id` [T], `image` [T E], `text` [T E], `content` [T L], the tokens.
          image_numbers: of the image of each example of the data set.
        """
        numbers, rows, owners = np.unique(image_numbers[pairs[ID]], return_index=True, return_inverse=True)
        contents = np.unique(pairs["content"], axis=0, return_inverse=True)[1].reshape(-1)
        size = len(numbers), 1 + contents.max(initial=0)
        belongs = scipy.sparse.csr_array((np.ones(len(owners), bool), (owners, contents)), shape=size)
        return cls(numbers, pairs["image"][rows], pairs["text"], owners, contents, belongs)

    @property
    def is_twin(self) -> Bool[np.ndarray, "T"]:
        """Whether a text is that of several images."""
        return self.belongs.astype(np.int64).sum(0)[self.contents] > 1  # type: ignore[no-any-return]

    def recalls(self, at: tuple[int, ...]) -> Rows:
        """The recalls of each image, and the sums and counts of those of its texts."""
        rows = {ID: self.numbers, GIVEN: self.numbers}
        texts_ahead = count_wrong_ahead(
            self.images, self.texts, lambda block: self.belongs[block].toarray()[:, self.contents]
        )
        by_content = self.belongs.T.tocsr()
        images_ahead = count_wrong_ahead(
            self.texts, self.images, lambda block: by_content[self.contents[block]].toarray()
        )
        counts = np.bincount(self.owners, minlength=len(self.numbers))
        for k in at:
            rows[f"image_to_text_r{k}"] = texts_ahead < k
            rows[f"text_to_image_r{k}"] = np.bincount(self.owners, images_ahead < k, len(self.numbers))
            rows[f"text_to_image_r{k}{COUNT}"] = counts
        return rows


def count_wrong_ahead(
    queries: Float[np.ndarray, "N E"], candidates: Float[np.ndarray, "C E"], right_of: RightOf
) -> Int[np.ndarray, "N"]:
    """How many wrong candidates are at least as near to each query as its nearest right one.

    Args:
      right_of: which candidates are right for the queries of a slice, bool [B C].
    """

    def counts() -> Iterator[np.ndarray]:
        for start in range(0, len(queries), ROWS):
            block = slice(start, start + ROWS)
            similarity = queries[block] @ candidates.T
            right = right_of(block)
            best = np.where(right, similarity, -np.inf).max(-1, keepdims=True)
            yield (~right & ~(similarity < best)).sum(-1)  # what isn't a number is never right

    return np.concatenate([*counts()]) if len(queries) else np.zeros(0, np.int64)
