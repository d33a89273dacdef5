"""Retrieval of images by texts and of texts by images, by the features of two towers."""

import dataclasses
from typing import Any

import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from txjax.data import Dataset
from txjax.eval.evaluator import Context, Evaluate, Evaluator
from txjax.eval.features.gallery import Gallery
from txjax.eval.features.pair_models import check_pair_model, pair_features
from txjax.eval.results import ID, real_rows
from txjax.objectives import Objective
from txjax.types import Batch, PyTree, UserError


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
            gallery = Gallery.of(image_numbers[pairs[ID]], pairs["content"])
            cosines = Cosines(pairs["image"][gallery.first], pairs["text"])
            scores = self.keep_and_rescore(context, gallery.recalls(self.at, cosines))
            return scores | {"twins": float(gallery.is_twin.sum())} if scores else {}

        return evaluate


@dataclasses.dataclass(frozen=True)
class Cosines:
    """The similarities of a gallery's images and texts by their features.

    Attributes:
      images: float32 [N E], the features of the images, of unit length.
      texts: float32 [T E], the features of all texts, of unit length.
    """

    images: Float[np.ndarray, "N E"]
    texts: Float[np.ndarray, "T E"]

    def of_images(self, block: slice) -> Float[np.ndarray, "B T"]:
        return self.images[block] @ self.texts.T

    def of_texts(self, block: slice) -> Float[np.ndarray, "B N"]:
        return self.texts[block] @ self.images.T
