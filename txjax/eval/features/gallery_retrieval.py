"""What all retrieval between images and texts has: the scores, and a picture of what the first texts find."""

import dataclasses
from typing import Any

import numpy as np
from jaxtyping import Float, Int

from txjax.data import Dataset
from txjax.data.dataset import Example
from txjax.data.loading.rng import example_rng
from txjax.errors import UserError
from txjax.eval.evaluator import Context, Evaluator
from txjax.eval.example_text import example_text
from txjax.eval.features.image_text_gallery import Gallery, Similarities
from txjax.eval.features.retrieval_pictures import NearImage, SearchedCaption, caption_rows
from txjax.eval.pictures import can_show, pixels
from txjax.objectives import Objective
from txjax.types import config_field

NEAREST = 5  # images of a text in the picture


@dataclasses.dataclass
class GalleryRetrieval(Evaluator):
    """Base class: how often what belongs to a query is among the most similar.

    Each text searches all images, and each image all texts. A text is right for an image that has it, or an equal one,
    as its own; an image may have several (`CaptionedImages(captions="every")`), and one of them is enough. A wrong one
    that is as similar as a right one counts as more similar.

    Scores: `image_to_text_rK`, R@K, the share of images with a right text among the K most similar ones, and
    `text_to_image_rK`, the same of texts, for each K; `twins`, the number of texts that are those of several images.
    The intervals' resamples draw images with all of their texts.

    The first texts with their own image, its rank and the five most similar images are in `pictures/NAME/STEP.png` and
    in the report.

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

    def report(
        self,
        context: Context,
        step: int,
        gallery: Gallery,
        similarities: Similarities,
        examples: Int[np.ndarray, "T"],
    ) -> dict[str, float]:
        """Keeps the results, draws the picture and returns the scores.

        Args:
          examples: the number of each text's example.
        """
        scores = self.keep_and_rescore(context, gallery.recalls(self.at, similarities))
        if len(examples) and can_show(self.data) and context.folder is not None:
            self._draw(context, step, gallery, similarities, examples)
        return scores | {"twins": float(gallery.is_twin.sum())} if scores else {}

    def _draw(
        self,
        context: Context,
        step: int,
        gallery: Gallery,
        similarities: Similarities,
        examples: Int[np.ndarray, "T"],
    ) -> None:
        def read(text: int) -> Example:
            return context.source.example(int(examples[text]), 0, example_rng(0, 0, int(examples[text])))

        def image(number: int) -> Float[np.ndarray, "H W C"]:
            return pixels(self.data, read(int(gallery.first[number]))["image"])

        captions = []
        for text in range(min(self.shown, len(examples))):
            search = gallery.search(text, similarities)
            nearest = [
                NearImage(image(number), float(search.similarity[number]), bool(search.is_right[number]))
                for number in search.order[:NEAREST].tolist()
            ]
            example = read(text)
            content = example_text(self.data, example)
            own_image = pixels(self.data, example["image"])
            captions.append(SearchedCaption(content, own_image, search.rank, len(gallery.numbers), nearest))
        context.write("pictures", step, "png", caption_rows(captions))
