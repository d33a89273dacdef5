"""Which classes a classifier confuses, and its most confident mistakes."""

import dataclasses
from typing import Any

import numpy as np

from txjax.data import Dataset
from txjax.data.dataset import Example
from txjax.data.loading.rng import example_rng
from txjax.errors import require
from txjax.eval.classification.classifier_evaluator import Classified
from txjax.eval.classification.confusion import Mistake, draw
from txjax.eval.classification.predictions import CLASSES, scores
from txjax.eval.evaluator import Context
from txjax.eval.example_text import example_text
from txjax.eval.pictures import can_show, pixels
from txjax.eval.results import GIVEN, ID, Rows
from txjax.objectives import Objective
from txjax.types import config_field

METRICS = {name: CLASSES[name] for name in ("accuracy", "f1_macro")}


@dataclasses.dataclass
class ClassReport(Classified):
    """Precision, recall and F1 of each class, the classes that are confused, and the most confident mistakes.

    `pictures/NAME/STEP.png` has the confusion matrix, or of more than `confusion.MOST` classes the most confused pairs,
    above the mistakes if they are images; `tables/NAME/STEP.txt` has scikit-learn's table of the classes above the
    mistakes, with their texts if they have some. Both are in the report.

    Scores: `accuracy`, `f1_macro`.

    Attributes:
      count: the number of mistakes.
    """

    count: int = config_field(12, at_least=0)

    def check(self, model: Any, objective: Objective, train: Dataset) -> None:
        require("sklearn", "scikit-learn", "eval")
        super().check(model, objective, train)

    def rescore(self, rows: Rows) -> dict[str, float]:
        return scores(rows[GIVEN], rows["predicted"], METRICS)

    def show(self, context: Context, step: int, rows: Rows) -> None:
        classes = np.union1d(rows[GIVEN], rows["predicted"])
        names = names_of(self.data, int(classes.max(initial=0)) + 1)
        wrong = np.flatnonzero(~rows["accuracy"])
        # Rounded, so that the order doesn't depend on the devices.
        order = np.lexsort((rows[ID][wrong], -rows["confidence"][wrong].round(4)))
        mistakes = []
        for i in wrong[order][: self.count]:
            number = int(rows[ID][i])
            classes_of = names[rows[GIVEN][i]], names[rows["predicted"][i]]
            content = self._content(context.source.example(number, 0, example_rng(0, 0, number)))
            mistakes.append(Mistake(number, *classes_of, float(rows["confidence"][i]), *content))
        picture = draw(rows[GIVEN], rows["predicted"], classes, names, mistakes)
        context.write("pictures", step, "png", picture)
        text = table(rows, classes, names) + "".join(f"\n{mistake}\n" for mistake in mistakes)
        context.write("tables", step, "txt", text.encode())

    def _content(self, example: Example) -> tuple[np.ndarray | None, str]:
        """The picture of an example from 0 to 1 and its text, as far as there are any."""
        image = pixels(self.data, example["image"]) if "image" in example and can_show(self.data) else None
        return image, example_text(self.data, example)


def names_of(data: Dataset, count: int) -> tuple[str, ...]:
    """The names of a data set's classes, and numbers where it has none, of at least `count`."""
    names = data.class_names() or ()
    return *names, *map(str, range(len(names), count))


def table(rows: Rows, classes: np.ndarray, names: tuple[str, ...]) -> str:
    """scikit-learn's table of these classes."""
    import sklearn.metrics  # slow to import, and an extra

    target_names = [names[number] for number in classes]
    labels = rows[GIVEN], rows["predicted"]
    return sklearn.metrics.classification_report(
        *labels, labels=classes, target_names=target_names, digits=3, zero_division=0.0
    )
