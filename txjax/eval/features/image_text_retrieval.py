"""Retrieval of images by texts and of texts by images, by the features of two towers."""

import dataclasses
from typing import Any

import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from txjax.data import Dataset
from txjax.eval.evaluator import Context, Evaluate
from txjax.eval.features.gallery_retrieval import GalleryRetrieval
from txjax.eval.features.image_text_gallery import Gallery
from txjax.eval.features.pair_models import check_pair_model, pair_features
from txjax.eval.results import ID, real_rows
from txjax.objectives import Objective
from txjax.types import Batch, PyTree


@dataclasses.dataclass
class ImageTextRetrieval(GalleryRetrieval):
    """How often what belongs to a query is among the nearest by the cosine (Radford et al. 2021, table 13).

    Scores and fields are as in `GalleryRetrieval`.
    """

    def check(self, model: Any, objective: Objective, train: Dataset) -> None:
        super().check(model, objective, train)
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
            return self.report(context, step, gallery, cosines, pairs[ID])

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
