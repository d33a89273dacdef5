"""Zero-shot classification of images: by the names of the classes in prompts."""

import dataclasses
from typing import Any

import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from txjax import tree
from txjax.data import Dataset
from txjax.data.class_names import known_names
from txjax.data.dataset import Example
from txjax.data.text.framed_rows import FramedRows
from txjax.errors import UserError
from txjax.eval.evaluator import Context, Evaluate, Evaluator
from txjax.eval.features.pair_models import check_pair_model, pair_features
from txjax.eval.results import GIVEN, real_rows
from txjax.objectives import Objective
from txjax.types import Batch, PyTree


@dataclasses.dataclass
class ZeroShot(Evaluator):
    """Classes of images by the texts that are nearest (Radford et al. 2021, 3.1.2 to 3.1.4).

    The features of a class are the mean of the features, of unit length, of its name in all prompts, and have unit
    length again. An image is of the class of the largest cosine. Texts are encoded as in the run's training data.
    Examples of weight 0 are left out.

    Scores: `accuracy`.

    Attributes:
      prompts: texts with `{}` in the place of the name.
      names: of the classes, in the order of their numbers. If None, those of `data`.
    """

    prompts: tuple[str, ...] = ("a photo of a {}.",)
    names: tuple[str, ...] | None = None

    def required_keys(self, objective: Objective) -> tuple[str, ...]:
        return ("image", "label", "weights")

    def check(self, model: Any, objective: Objective, train: Dataset) -> None:
        for prompt in self.prompts or ("",):
            if prompt.count("{}") != 1:
                raise UserError("eval.prompts", "texts with one {} each, in the place of the class", prompt)
        rows_of(train)
        self.class_names()
        check_pair_model(model, objective, self.data)

    def class_names(self) -> tuple[str, ...]:
        """The names of the classes. Raises UserError if they aren't known, or not those of the data."""
        try:
            names = known_names(self.names or self.data.class_names())
        except UserError as error:
            raise error.with_path("eval.data", "data") from None
        if names is None:
            raise UserError("eval.names", "the names of the classes, since the data set has none", self.names)
        classes = getattr(self.data, "classes", None)
        if classes not in (None, len(names)):
            raise UserError("eval.names", f"a name for each of the {classes} classes", f"{len(names)}")
        return names

    def start(self, context: Context) -> Evaluate:
        model = context.model
        objective = context.objective
        names = self.class_names()
        texts = [prompt.replace("{}", name) for name in names for prompt in self.prompts]
        source = PromptSource(rows_of(context.train), texts, f"config.evals.{context.name}.prompts")

        def encode(variables: PyTree, batch: Batch) -> PyTree:
            text = pair_features(model, objective, variables, batch).text
            return {"text": text, "weights": batch["weights"]}

        def classify(inputs: PyTree, batch: Batch) -> PyTree:
            variables, classes = inputs
            image = pair_features(model, objective, variables, batch).image
            predicted = jnp.matmul(image, classes.T, precision="highest").argmax(-1)
            return {GIVEN: batch["label"], "accuracy": predicted == batch["label"], "weights": batch["weights"]}

        encoded = context.program(encode)
        classified = context.program(classify)

        def evaluate(variables: PyTree, step: int) -> dict[str, float]:
            features = real_rows(context.run_batches(encoded, variables, source))["text"]
            inputs = variables, context.put(class_features(features, len(names)))
            rows = real_rows(context.run_batches(classified, inputs, context.source, self.max_batches))
            return self.keep_and_rescore(context, rows)

        return evaluate


def class_features(features: Float[np.ndarray, "N E"], classes: int) -> Float[np.ndarray, "{classes} E"]:
    """The features of the classes, from those of their prompts, class after class."""
    means = features.reshape(classes, -1, features.shape[-1]).mean(1)
    return means / np.maximum(np.linalg.norm(means, axis=-1, keepdims=True), 1e-12)  # type: ignore[no-any-return]


def rows_of(data: Dataset) -> FramedRows:
    """What makes rows of texts as in the training data. Raises UserError if these have no texts."""
    nodes = [node for _, node in tree.walk(data, "data") if isinstance(node, Dataset)]
    with_texts = [node for node in nodes if hasattr(node, "tokenizer") and hasattr(node, "length")]
    if not with_texts:
        raise UserError("eval", "a run whose training data have texts", type(data).__name__)
    return FramedRows(with_texts[0].tokenizer, with_texts[0].length)


class PromptSource:
    """Texts as examples.

    Attributes:
      fingerprint: none, since no run depends on it.
    """

    fingerprint = ""

    def __init__(self, rows: FramedRows, texts: list[str], field: str):
        """
        Raises:
          UserError: a text is longer than a row; the field is `field`.
        """
        self._rows = rows
        self._ids = rows.tokenizer.encode_batch(texts)
        longest = max(range(len(texts)), key=lambda number: len(self._ids[number]))
        if len(self._ids[longest]) > rows.room:
            got = f"{len(self._ids[longest])} tokens of {texts[longest]!r}"
            raise UserError(field, f"texts of at most {rows.room} tokens, as config.data.length has room for", got)

    def __len__(self) -> int:
        return len(self._ids)

    def example(self, index: int, epoch: int, rng: np.random.Generator) -> Example:
        return self._rows.row(self._ids[index]) | {"weights": np.ones((), np.float32)}
