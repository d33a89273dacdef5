"""Retrieval of translations by a model's features."""

import dataclasses
from collections.abc import Iterator
from typing import Any

import numpy as np
from jaxtyping import Bool, Float

from txjax.data import Dataset, Source
from txjax.errors import UserError
from txjax.eval.evaluator import Context, Evaluate, Evaluator, outline
from txjax.eval.features.frozen_features import check_inputs, features_of, modalities_of, sown_features
from txjax.eval.results import GIVEN, ID
from txjax.objectives import Objective, check_model_data, missing_keys
from txjax.types import Batch, PyTree

ROWS = 1024  # compared at a time


@dataclasses.dataclass
class Retrieval(Evaluator):
    """Which text of another language is a text's translation: the nearest by the cosine of their features.

    Features [B D] are what the model sows: the mean over a text's tokens, if its head has no pool of its own. Example i
    of `translations` is the translation of example i of `data`.

    Scores: `accuracy`, the share of texts whose nearest neighbour is their translation, and `reverse_accuracy`, that of
    translations whose nearest neighbour is their text. By chance both are 1 / N.

    Attributes:
      translations: the data set of the translations, in the same order.
    """

    translations: Dataset = dataclasses.field(kw_only=True)

    def required_keys(self, objective: Objective) -> tuple[str, ...]:
        return ("id", *modalities_of(self.data), "weights")

    def check(self, model: Any, objective: Objective, train: Dataset) -> None:
        try:
            self.translations.check()
        except UserError as error:
            raise error.with_path("eval.translations", "data") from None
        spec = self.translations.spec()
        if missing := missing_keys(self.required_keys(objective), spec):
            raise UserError("eval.translations", f"examples with {', '.join(missing)}", ", ".join(spec))
        check_model_data(model, self.translations, "eval.translations")
        for data in (self.data, self.translations):
            check_inputs(model, objective, data)
            sown_features(outline(model, objective, data)[1], model)

    def start(self, context: Context) -> Evaluate:
        model = context.model
        objective = context.objective
        sources = context.source, self.translations.open()
        sizes = [len(source) for source in sources]
        if sizes[0] != sizes[1]:
            raise UserError(f"config.evals.{context.name}.translations", f"{sizes[0]} texts, as in data", sizes[1])

        def features(variables: PyTree, batch: Batch) -> PyTree:
            mask = batch["weights"].reshape(len(batch["weights"]), -1).max(1) > 0
            return features_of(model, variables, objective.inputs(model, batch)), mask

        program = context.program(features)

        def vectors(variables: PyTree, source: Source) -> tuple[np.ndarray, np.ndarray]:
            rows = list(context.run_batches(program, variables, source, self.max_batches))
            x, mask = (np.concatenate(column) for column in zip(*rows, strict=True))
            return x, mask

        def evaluate(variables: PyTree, step: int) -> dict[str, float]:
            (texts, here), (translations, there) = (vectors(variables, source) for source in sources)
            both = here & there
            pairs = texts[both], translations[both]
            ids = np.flatnonzero(both)
            right = {"accuracy": own_is_nearest(*pairs), "reverse_accuracy": own_is_nearest(*pairs[::-1])}
            rows = {ID: ids, GIVEN: ids, **right}
            return self.keep_and_rescore(context, rows)

        return evaluate


def own_is_nearest(queries: Float[np.ndarray, "N D"], keys: Float[np.ndarray, "N D"]) -> Bool[np.ndarray, "N"]:
    """Whether the nearest key of each query, by the cosine, is the one of its own row."""
    queries, keys = (x / np.maximum(np.linalg.norm(x, axis=-1, keepdims=True), 1e-12) for x in (queries, keys))

    def right() -> Iterator[np.ndarray]:
        for start in range(0, len(queries), ROWS):
            nearest = (queries[start : start + ROWS] @ keys.T).argmax(-1)
            yield nearest == np.arange(start, start + len(nearest))

    return np.concatenate([*right()])
