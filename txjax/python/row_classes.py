"""Classes of rows that were not trained on."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import jax
import numpy as np

from txjax import backend
from txjax.data import Images, LabelledText, Tags, eval_batches
from txjax.data.sources.columns import Column
from txjax.data.sources.file_rows import Row, Rows
from txjax.data.sources.python_rows import PythonRows
from txjax.data.tfds.computed_labels import label_of
from txjax.errors import UserError
from txjax.objectives import SigmoidCrossEntropy, model_inputs
from txjax.train.run_eval import shard_batch

if TYPE_CHECKING:
    from txjax.cli.load_run import OpenRun


SHOWN = 5  # classes of a prediction that is printed


@dataclasses.dataclass(frozen=True)
class Prediction:
    """The prediction of a row. Its `repr` has the five most probable classes and the number of all.

    Attributes:
      label: the most probable class.
      labels: of a model of several classes those whose probability is above 1/2; else the most probable class.
      probabilities: of all classes, by their names.
    """

    label: str
    labels: tuple[str, ...]
    probabilities: dict[str, float]

    def __repr__(self) -> str:
        ranked = sorted(self.probabilities.items(), key=lambda pair: pair[1], reverse=True)
        shares = _first_of([f"{name!r}: {share:.4g}" for name, share in ranked])
        labels = _first_of([repr(name) for name in self.labels]) + "," * (len(self.labels) == 1)
        return f"Prediction(label={self.label!r}, labels=({labels}), probabilities={{{shares}}})"


def _first_of(parts: Sequence[str]) -> str:
    """The first parts of a list, and how many there are."""
    return ", ".join(parts[:SHOWN]) + (f", ... of {len(parts):,}" if len(parts) > SHOWN else "")


@dataclasses.dataclass
class UnlabelledRows(PythonRows):
    """Rows without a class, for a data set that reads one: each has another value in its place.

    Attributes:
      content: the rows.
      column: with the class, or with the classes.
      value: of each row.
    """

    content: Sequence[Mapping[str, Any]] = ()
    column: Column = Column("label", "class")
    value: Any = ""

    def rows(self) -> Sequence[Row]:
        return [{**row, self.column.name: self.value} for row in self.content]

    def stated_columns(self, rows: Rows) -> dict[str, Column]:
        return {self.column.name: self.column}


def predict(run: OpenRun, rows: Any, classes: Sequence[str] | None = None) -> list[Prediction]:
    """The class of each row.

    Args:
      rows: a pandas table, or dicts.
      classes: their names. If None, the training data have them.

    Raises:
      UserError: the run classifies neither texts nor images; a row lacks a column.
    """
    experiment = run.experiment
    data = experiment.data
    if not isinstance(data, LabelledText | Images) or not isinstance(data.label, str | Tags):
        raise UserError("config.data", "LabelledText or Images, which have a class", type(data).__name__)
    content = rows.to_dict("records") if hasattr(rows, "to_dict") else list(rows)
    if not content:
        return []
    names = data.class_names() if classes is None else tuple(classes)
    several = isinstance(data.label, Tags)
    name = label_of(data.label).feature
    column = Column(name, "classes" if several else "class", names)
    source = UnlabelledRows(held_out=0.0, content=content, column=column, value=[] if several else names[0])
    label = Tags(name) if several else name
    opened = dataclasses.replace(data, source=source, label=label, split="train", subset=None).open()
    loss = getattr(experiment.objective, "loss", None)
    normalize = jax.nn.sigmoid if isinstance(loss, SigmoidCrossEntropy) else jax.nn.softmax

    @backend.jit
    def probabilities(variables: Any, batch: Any) -> jax.Array:
        inputs = model_inputs(experiment.model, batch)
        return normalize(experiment.model.apply(variables, **inputs))

    size = experiment.batch_size
    batches = eval_batches(opened, batch_size=size)
    shares = [jax.device_get(probabilities(run.variables, shard_batch(x, run.layout.batch, size))) for x in batches]
    predictions = []
    for row in np.concatenate(shares)[: len(content)]:
        likeliest = names[int(row.argmax())]
        likely = tuple(name for name, share in zip(names, row, strict=True) if share > 0.5)
        labels = likely if several else (likeliest,)
        predictions.append(Prediction(likeliest, labels, dict(zip(names, row.tolist(), strict=True))))
    return predictions
