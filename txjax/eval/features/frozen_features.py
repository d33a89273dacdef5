"""Evaluation of a model's frozen features with labelled training examples."""

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from txjax.data import Dataset, Source
from txjax.data.dataset import Example
from txjax.data.keys import MODALITIES
from txjax.errors import UserError
from txjax.eval.evaluator import Context, Evaluate, Evaluator, outline
from txjax.eval.results import GIVEN, Rows, real_rows
from txjax.objectives import Objective, missing_keys
from txjax.types import Batch, PyTree, config_field, flat_paths, spec


def features_of(model: Any, variables: PyTree, inputs: dict[str, Any]) -> Float[Array, "B D"]:
    """The features [B D] of a model's examples, float32; see `sown_features`.

    Raises:
      UserError: the model sows no features, or none of its own.
    """
    _, state = model.apply(variables, **inputs, train=False, mutable=["intermediates"])
    return sown_features(state, model).astype(jnp.float32)


def sown_features(state: PyTree, model: Any) -> Any:
    """What the model sowed as `features` in `intermediates`: at the shortest path, if it has parts with features too.

    Raises:
      UserError: there are none, or several at the shortest path.
    """
    steps = {tuple(path.split("/")): x for path, x in flat_paths(state.get("intermediates", {})).items()}
    candidates = {path[: path.index("features")]: x for path, x in steps.items() if "features" in path}
    shortest = [path for path in candidates if len(path) == min(map(len, candidates))]
    if not shortest:
        raise UserError("config.model", 'a model that sows "features"', type(model).__name__)
    if len(shortest) > 1:
        parts = sorted("/".join(path) for path in shortest)
        expected = 'a model that sows "features" of its own, or has one part that does'
        hint = 'sow those that count in the model itself: self.sow("intermediates", "features", x)'
        raise UserError("config.model", expected, f"{type(model).__name__} with those of {', '.join(parts)}", hint=hint)
    return candidates[shortest[0]]


def modalities_of(data: Dataset) -> tuple[str, ...]:
    """What a model may read of this data set's examples."""
    return tuple(name for name in MODALITIES if name in data.spec())


def check_inputs(model: Any, objective: Objective, data: Dataset) -> None:
    """Raises UserError unless the objective gives the model something of the examples as it is."""
    known = data.spec()
    shape = spec((), "float32")
    keys = {*known, *(name for need in objective.required_keys for name in need.split(" | "))}
    shapes = {name: known.get(name, shape) for name in keys}
    batch = {name: spec((1, *x.shape), str(x.dtype)) for name, x in shapes.items()}
    if not set(jax.eval_shape(lambda batch: objective.inputs(model, batch), batch)) & set(modalities_of(data)):
        expected = "a run whose model reads the examples as they are"
        raise UserError("eval", expected, type(objective).__name__)


class Spread:
    """`count` examples of a source, evenly spread over it."""

    def __init__(self, source: Source, count: int):
        self.source = source
        self.count = count
        self.fingerprint = f"{count} of {source.fingerprint}"

    def __len__(self) -> int:
        return self.count

    def example(self, index: int, epoch: int, rng: np.random.Generator) -> Example:
        return self.source.example(index * len(self.source) // self.count, epoch, rng)


@dataclasses.dataclass
class Frozen(Evaluator):
    """Base class: predicts classes only from a model's features and the features of labelled training examples.

    A model provides its features [B D] by `sow("intermediates", "features", x)`: the input of a classifier, without
    dropout, or the mean over the tokens; for a masked autoencoder, with all patches visible. If its parts sow features
    too, those at the shortest path count. Examples of weight 0 are left out.

    Attributes:
      train: the training examples. If None, the run's training split with the settings of `data`, so without the
        augmentation of the run's training data.
      max_train: at most this many of them, evenly spread over the split. If None, all.
    """

    train: Dataset | None = None
    max_train: int | None = config_field(None, at_least=1)

    def required_keys(self, objective: Objective) -> tuple[str, ...]:
        return (*modalities_of(self.data), "label", "weights")

    def check(self, model: Any, objective: Objective, train: Dataset) -> None:
        references = self.reference_set(train)
        try:
            references.check()
        except UserError as error:
            raise error.with_path("eval.train", "data") from None
        if needs := missing_keys(self.required_keys(objective), references.spec()):
            raise UserError("eval.train", f"examples with {', '.join(needs)}", type(references).__name__)
        check_inputs(model, objective, self.data)
        sown_features(outline(model, objective, self.data)[1], model)

    def reference_set(self, train: Dataset) -> Dataset:
        """The labelled training examples, for a run that trains on `train`."""
        if self.train is not None:
            return self.train
        mine, theirs = (getattr(data, "name", None) for data in (self.data, train))
        if mine is None or mine != theirs:
            hint = f"the run trains on {theirs}, and this evaluator's data is {mine}"
            raise UserError("eval.train", "labelled training examples for this evaluator's data", None, hint=hint)
        return dataclasses.replace(self.data, **{"split": vars(train)["split"]})

    def start(self, context: Context) -> Evaluate:
        references: Source = self.reference_set(context.train).open()
        if self.max_train is not None and self.max_train < len(references):
            references = Spread(references, self.max_train)

        def evaluate(variables: PyTree, step: int) -> dict[str, float]:
            known = self.rows(context, variables, references)
            return self.score(context, variables, known["features"], known[GIVEN])

        return evaluate

    def rows(self, context: Context, variables: PyTree, source: Source, max_batches: int | None = None) -> Rows:
        """The `features` [N D] of a source's examples; their labels are what is `given`."""
        model = context.model
        objective = context.objective

        def features(variables: PyTree, batch: Batch) -> PyTree:
            x = features_of(model, variables, objective.inputs(model, batch))
            return {GIVEN: batch["label"], "features": x, "weights": batch["weights"]}

        program = context.program(features)
        return real_rows(context.run_batches(program, variables, source, max_batches))

    def score(
        self, context: Context, variables: PyTree, features: Float[np.ndarray, "N D"], labels: Int[np.ndarray, "N"]
    ) -> dict[str, float]:
        """The scores, from the features and the labels of the training examples."""
        raise NotImplementedError
