"""Retrieval of images by texts and of texts by images, by a model that reads both at once."""

import dataclasses
import functools
from typing import Any

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from txjax.data import CaptionedImages, Dataset
from txjax.data.dataset import Example
from txjax.data.images.captioned_images import CaptionedSource
from txjax.errors import UserError
from txjax.eval.evaluator import Context, Evaluate, outline
from txjax.eval.features.gallery_retrieval import GalleryRetrieval
from txjax.eval.features.image_text_gallery import Gallery
from txjax.eval.results import ID, real_rows
from txjax.objectives import Classification, Objective, model_inputs
from txjax.types import Batch, PyTree


@dataclasses.dataclass
class CrossRetrieval(GalleryRetrieval):
    """How often what belongs to a query is among the best, where the model compares each image with each text.

    (Lu et al. 2019, 3.3, caption-based image retrieval, also without tuning.) A pair's score is the model's one number
    for it, as of `MultipleChoice`, or the log odds by its `NextSentence` head that the two belong together. All pairs
    are computed: N images and T texts take N T rows of the model.

    Scores and fields are as in `GalleryRetrieval`.
    """

    def check(self, model: Any, objective: Objective, train: Dataset) -> None:
        super().check(model, objective, train)
        if self.max_batches is not None:
            raise UserError("eval.max_batches", "None, since each image is compared with each text", self.max_batches)
        if not isinstance(self.data, CaptionedImages):
            raise UserError("eval.data", "CaptionedImages(...)", type(self.data).__name__)
        if self.data.captions == "random":
            raise UserError(
                "eval.data.captions", '"first" or "every", since a text is compared with each image', "random"
            )
        output, _ = outline(model, Classification(), self.data)
        logits = output[1] if isinstance(output, tuple) and len(output) > 1 else output
        if getattr(logits, "shape", ())[1:] not in ((1,), (2,)):
            expected = "a model that scores pairs of an image and a text"
            hint = "its head must be Classes(1, ...), or have a NextSentence(...)"
            raise UserError("config.model", expected, type(model).__name__, hint=hint)

    def start(self, context: Context) -> Evaluate:
        source: CaptionedSource = context.source  # type: ignore[assignment]

        def score(variables: PyTree, batch: Batch) -> PyTree:
            output = context.model.apply(variables, **model_inputs(context.model, batch), train=False)
            return {"weights": batch["weights"], "score": pair_scores(output)}

        program = context.program(score)

        def evaluate(variables: PyTree, step: int) -> dict[str, float]:
            pairs = AllPairs(source)
            rows = real_rows(context.run_batches(program, variables, pairs))
            image, text = np.divmod(rows[ID], len(source))
            usable = np.isin(pairs.owners, image)  # images that were left out have no rows
            scores = np.full((len(pairs.first), len(source)), -np.inf, np.float32)
            scores[image, text] = rows["score"]
            gallery = Gallery.of(source.image_numbers[usable], pairs.tokens()[usable])
            matrix = ScoreMatrix(scores[np.unique(image)][:, usable])
            return self.report(context, step, gallery, matrix, np.flatnonzero(usable))

        return evaluate


class AllPairs:
    """A source of every image of a source with every text of it, image after image.

    Attributes:
      first: int [N], each image's first example.
      owners: int [T], the index of the image of each example.
    """

    def __init__(self, source: CaptionedSource):
        _, self.first, self.owners = np.unique(source.image_numbers, return_index=True, return_inverse=True)
        self._source = source
        self._images = functools.lru_cache(maxsize=8)(self._image)
        self.fingerprint = f"all pairs of {source.fingerprint}"

    def __len__(self) -> int:
        return len(self.first) * len(self._source)

    def _image(self, image: int) -> Example:
        return self._source.example(int(self.first[image]), 0, np.random.default_rng(0))

    def example(self, index: int, epoch: int, rng: np.random.Generator) -> Example:
        image, text = divmod(index, len(self._source))
        return self._images(image) | self._source.caption(text, rng)

    def tokens(self) -> Int[np.ndarray, "T L"]:
        """The texts of all examples; -1 for padding."""
        rng = np.random.default_rng(0)
        rows = [self._source.caption(text, rng) for text in range(len(self._source))]
        return np.stack([np.where(row["segments"] > 0, row["tokens"], -1) for row in rows])


@dataclasses.dataclass(frozen=True)
class ScoreMatrix:
    """The similarities of a gallery's images and texts, float32 [N T]."""

    scores: Float[np.ndarray, "N T"]

    def of_images(self, block: slice) -> Float[np.ndarray, "B T"]:
        return self.scores[block]

    def of_texts(self, block: slice) -> Float[np.ndarray, "B N"]:
        return self.scores.T[block]


def pair_scores(output: PyTree) -> Float[Array, "B"]:
    """The scores of pairs by a model's output: one number, or the log odds of two classes."""
    logits = jnp.asarray(output[1] if isinstance(output, tuple) else output, jnp.float32)
    return logits[:, 0] if logits.shape[1] == 1 else logits[:, 1] - logits[:, 0]
