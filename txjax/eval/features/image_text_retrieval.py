"""Retrieval of images by texts and of texts by images."""

import dataclasses
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
import scipy.sparse
from jaxtyping import Bool, Float, Int

from txjax.data import Dataset
from txjax.data.dataset import Example
from txjax.data.loading.rng import example_rng
from txjax.eval.evaluator import Context, Evaluate, Evaluator
from txjax.eval.example_text import example_text
from txjax.eval.features.pair_models import check_pair_model, pair_features
from txjax.eval.features.retrieval_pictures import NearImage, SearchedCaption, caption_rows
from txjax.eval.pictures import can_show, pixels
from txjax.eval.results import COUNT, GIVEN, ID, Rows, real_rows
from txjax.objectives import Objective
from txjax.types import Batch, PyTree, UserError, config_field

RightOf = Callable[[slice], Bool[np.ndarray, "B C"]]

NEAREST = 5  # images of a text in the picture
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

    The first texts with their own image, its rank and their five nearest images are in `pictures/NAME/STEP.png` and in
    the report.

    Attributes:
      at: the numbers K.
      shown: the number of texts in the picture.
    """

    at: tuple[int, ...] = (1, 5, 10)
    shown: int = config_field(6, at_least=1)

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
            self._draw(context, step, gallery, pairs[ID])
            return scores | {"twins": float(gallery.is_twin.sum())} if scores else {}

        return evaluate

    def _draw(self, context: Context, step: int, gallery: "Gallery", examples: Int[np.ndarray, "T"]) -> None:
        """Draws what the first texts find, if the images can be shown. `examples`: the example of each text."""
        if not len(examples) or not can_show(self.data) or context.folder is None:
            return

        def read(text: int) -> Example:
            return context.source.example(int(examples[text]), 0, example_rng(0, 0, int(examples[text])))

        def image(number: int) -> Float[np.ndarray, "H W C"]:
            return pixels(self.data, read(int(np.flatnonzero(gallery.owners == number)[0]))["image"])

        captions = []
        for text in range(min(self.shown, len(examples))):
            search = gallery.search(text)
            nearest = [
                NearImage(image(number), float(search.similarity[number]), bool(search.is_right[number]))
                for number in search.order[:NEAREST].tolist()
            ]
            example = read(text)
            content = example_text(self.data, example)
            shown = content, pixels(self.data, example["image"])
            captions.append(SearchedCaption(*shown, search.rank, len(gallery.images), nearest))
        context.write("pictures", step, "png", caption_rows(captions))


class TextSearch(NamedTuple):
    """What a text finds among all images.

    Attributes:
      similarity: the cosine with each image.
      is_right: whether the text is one of the image's.
    """

    similarity: Float[np.ndarray, "N"]
    is_right: Bool[np.ndarray, "N"]

    @property
    def order(self) -> Int[np.ndarray, "N"]:
        """The images, the nearest first."""
        return np.argsort(-self.similarity, kind="stable")

    @property
    def rank(self) -> int:
        """Of the nearest right image, from 1; a wrong one that is as near is before it."""
        best = self.similarity[self.is_right].max()
        return 1 + int((~self.is_right & ~(self.similarity < best)).sum())


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

    def search(self, text: int) -> TextSearch:
        """What a text finds."""
        is_right = self.belongs[:, [self.contents[text]]].toarray()[:, 0]
        return TextSearch(self.images @ self.texts[text], is_right)

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
