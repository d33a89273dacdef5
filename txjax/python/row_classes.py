"""Classes of rows that were not trained on."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import jax
import numpy as np

from txjax import backend
from txjax.data import Images, LabelledText, eval_batches
from txjax.data.sources.columns import Column
from txjax.data.sources.file_rows import Row, Rows
from txjax.data.sources.python_rows import PythonRows
from txjax.errors import UserError
from txjax.objectives import model_inputs
from txjax.train.run_eval import shard_batch

if TYPE_CHECKING:
    from txjax.cli.load_run import OpenRun


@dataclasses.dataclass(frozen=True)
class Prediction:
    """The prediction of a row.

    Attributes:
      label: the most probable class.
      probabilities: of all classes, by their names.
    """

    label: str
    probabilities: dict[str, float]


@dataclasses.dataclass
class UnlabelledRows(PythonRows):
    """Rows without a class, for a data set that reads one: each has the first class in its place.

    Attributes:
      content: the rows.
      column: the name of the column with the class.
      classes: the names of the classes, as in the training data.
    """

    content: Sequence[Mapping[str, Any]] = ()
    column: str = "label"
    classes: tuple[str, ...] = ()

    def rows(self) -> Sequence[Row]:
        return [{**row, self.column: self.classes[0]} for row in self.content]

    def stated_columns(self, rows: Rows) -> dict[str, Column]:
        return {self.column: Column(self.column, "class", self.classes)}


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
    if not isinstance(data, LabelledText | Images) or not isinstance(data.label, str):
        raise UserError("config.data", "LabelledText or Images, which have a class", type(data).__name__)
    content = rows.to_dict("records") if hasattr(rows, "to_dict") else list(rows)
    if not content:
        return []
    names = data.class_names() if classes is None else tuple(classes)
    source = UnlabelledRows(held_out=0.0, content=content, column=data.label, classes=names)
    opened = dataclasses.replace(data, source=source, split="train", subset=None).open()

    @backend.jit
    def probabilities(variables: Any, batch: Any) -> jax.Array:
        inputs = model_inputs(experiment.model, batch)
        return jax.nn.softmax(experiment.model.apply(variables, **inputs), axis=-1)

    size = experiment.batch_size
    batches = eval_batches(opened, batch_size=size)
    shares = [jax.device_get(probabilities(run.variables, shard_batch(x, run.layout.batch, size))) for x in batches]
    return [
        Prediction(names[int(row.argmax())], dict(zip(names, row.tolist(), strict=True)))
        for row in np.concatenate(shares)[: len(content)]
    ]
