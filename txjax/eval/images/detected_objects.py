"""Images with the boxes of their objects and the predicted ones, as a picture."""

import dataclasses
from typing import Any

import numpy as np

from txjax.data import Dataset
from txjax.eval.evaluator import Context, Evaluate, Evaluator
from txjax.eval.images.average_precision import Detected, check_boxes, detect_objects, shown_extent
from txjax.eval.pictures import Outline, check_images, grid, pixels
from txjax.objectives import Objective
from txjax.types import Batch, PyTree, config_field


@dataclasses.dataclass
class DetectedObjects(Evaluator):
    """The first images of a set with the boxes of their objects, and with the predicted boxes and their probabilities,
    in `pictures/NAME/STEP.png` and in the report.

    Scores: none.

    Attributes:
      count: the number of images.
      threshold: predictions of a lower probability are not shown.
    """

    count: int = config_field(8, at_least=1)
    threshold: float = config_field(0.5, at_least=0, at_most=1)

    def check(self, model: Any, objective: Objective, train: Dataset) -> None:
        check_boxes(model, objective, self.data)
        check_images(self.data)

    def start(self, context: Context) -> Evaluate:
        model = context.model
        objective = context.objective
        names = self.data.class_names() or ()

        def class_name(label: int) -> str:
            return names[label] if label < len(names) else str(label)

        def predict(variables: PyTree, batch: Batch) -> PyTree:
            output = model.apply(variables, **objective.inputs(model, batch), train=False)
            return batch["image"], *detect_objects(output, batch, shown_extent(batch))

        program = context.program(predict)
        batches = -(-self.count // context.batch_size)

        def evaluate(variables: PyTree, step: int) -> dict[str, float]:
            parts = list(context.run_batches(program, variables, context.source, batches))
            count = min(self.count, len(context.source))
            images, *columns = (np.concatenate(column)[:count] for column in zip(*parts, strict=True))
            detections = Detected(*columns)
            sides = np.tile(images.shape[1:3], 2)
            outlines: dict[str, list[list[Outline]]] = {"objects": [], "predicted": []}
            for i in range(count):
                rows = detections.labels[i] >= 0
                objects = zip(detections.objects[i][rows] / sides, detections.labels[i][rows], strict=True)
                outlines["objects"].append([Outline(box, label, class_name(label)) for box, label in objects])
                rows = detections.scores[i] >= self.threshold
                boxes = zip(
                    detections.boxes[i][rows] / sides,
                    detections.classes[i][rows],
                    detections.scores[i][rows],
                    strict=True,
                )
                outlines["predicted"].append(
                    [Outline(box, k, f"{class_name(k)} {score:.2f}") for box, k, score in boxes]
                )
            shown = dict.fromkeys(outlines, pixels(self.data, images))
            context.write("pictures", step, "png", grid(shown, outlines))
            return {}

        return evaluate
