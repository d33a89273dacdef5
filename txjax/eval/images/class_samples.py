"""Images of each class that a model generates during training, as a picture, and how many are recognised."""

import dataclasses
import functools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from txjax.data import Dataset
from txjax.data.dataset import Example
from txjax.decoding import ParallelDecoding
from txjax.errors import UserError
from txjax.eval.evaluator import Context, Evaluate, Evaluator
from txjax.eval.images.pixel_classifier import PixelClassifier
from txjax.eval.pictures import check_images, grid, pixels
from txjax.objectives import MaskedVisualTokens, Objective, example_keys
from txjax.types import Batch, PyTree, config_field


@dataclasses.dataclass
class ClassSamples(Evaluator):
    """Images of each class that MaskGIT generates, in `pictures/NAME/STEP.png` of the workdir and in the report.

    The random keys are the same at every step, so that only the model changes. `data` has labelled images, by default
    the training split: the classifier is fitted to them, once a run.

    Scores: `recognised`, the share of the images that the classifier takes for their class.

    Attributes:
      count: images of each class.
      shown: at most this many of them are in the picture.
      classes: which. If (), all.
      decoding: how tokens are generated.
      classifier: recognises classes. If None, there is no score.
    """

    count: int = config_field(8, at_least=1)
    shown: int = config_field(8, at_least=1)
    classes: tuple[int, ...] = ()
    decoding: ParallelDecoding = dataclasses.field(default_factory=ParallelDecoding)
    classifier: PixelClassifier | None = dataclasses.field(default_factory=PixelClassifier)

    def required_keys(self, objective: Objective) -> tuple[str, ...]:
        return ("image", "label", "weights")

    def check(self, model: Any, objective: Objective, train: Dataset) -> None:
        if not isinstance(objective, MaskedVisualTokens):
            raise UserError("eval", "a run whose objective is MaskedVisualTokens", type(objective).__name__)
        check_images(self.data)
        if bad := [number for number in self.classes if not 0 <= number < objective.classes]:
            raise UserError("eval.classes", f"numbers from 0 to {objective.classes - 1}", bad[0])
        if self.classifier is not None:
            self.classifier.check()

    def start(self, context: Context) -> Evaluate:
        model = context.model
        objective = context.objective
        assert isinstance(objective, MaskedVisualTokens)
        height, width, _ = self.data.spec()["image"].shape
        numbers = self.classes or tuple(range(objective.classes))
        names = self.data.class_names() or tuple(map(str, range(objective.classes)))
        asked = Asked(np.repeat(np.asarray(numbers, np.int32), self.count))

        def paint(variables: PyTree, batch: Batch) -> PyTree:
            shapes = {"image": jnp.zeros((len(batch["label"]), height, width, 1)), "label": batch["label"]}
            tokens = objective.inputs(model, shapes)["tokens"][:, 1:]

            def predict(tokens: jax.Array) -> jax.Array:
                inputs = objective.sequence(tokens, batch["label"])
                return objective.of_codes(model.apply(variables, **inputs, train=False)).dense()

            keys = example_keys(jax.random.key(context.seed), batch)
            tokens = self.decoding(predict, tokens, objective.mask_id, keys)
            return objective.decode(variables, tokens, height, width)

        program = context.program(paint)
        classifier = functools.cache(lambda: self._fit_classifier(context, objective.classes))

        def evaluate(variables: PyTree, step: int) -> dict[str, float]:
            painted = np.concatenate(list(context.run_batches(program, variables, asked)))[: len(asked)]
            images = painted.reshape(len(numbers), self.count, *painted.shape[1:])[:, : self.shown]
            rows = {names[number]: pixels(self.data, row) for number, row in zip(numbers, images, strict=True)}
            context.write("pictures", step, "png", grid(rows))
            recognise = classifier()
            return {} if recognise is None else {"recognised": float((recognise(painted) == asked.labels).mean())}

        return evaluate

    def _fit_classifier(self, context: Context, classes: int) -> Any:
        """The classifier, fitted; or None."""
        if self.classifier is None:
            return None
        read = context.program(lambda variables, batch: tuple(batch[key] for key in ("image", "label", "weights")))
        rows = context.run_batches(read, {}, context.source, self.max_batches)
        images, labels, weights = (np.concatenate(column) for column in zip(*rows, strict=True))
        return self.classifier.fit(images[weights > 0], labels[weights > 0], classes)


class Asked:
    """The classes of images that are to be generated, as a source.

    Attributes:
      labels: of all images.
    """

    fingerprint = "classes"

    def __init__(self, labels: np.ndarray):
        self.labels = labels

    def __len__(self) -> int:
        return len(self.labels)

    def example(self, index: int, epoch: int, rng: np.random.Generator) -> Example:
        return {"label": np.array(self.labels[index]), "weights": np.array(1, np.float32)}
