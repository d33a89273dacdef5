"""The base of all objectives, and their shared functions."""

import dataclasses
import inspect
from collections.abc import Callable, Iterable, Mapping
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from txjax.data import Dataset
from txjax.data.keys import MODALITIES, SOURCES, read_modalities
from txjax.errors import UserError
from txjax.nn import AUX_COLLECTIONS
from txjax.objectives.data_checks import check_model_data
from txjax.types import Batch, Mean, ObjectiveOutput, PyTree, flat_paths


@dataclasses.dataclass
class Objective:
    """The loss and metrics, as a pure function of a model, its variables and a batch.

    Attributes:
      frozen: prefixes of parameters, of models other than the run's, that come from `init_from` and are not trained.
      arguments: of the model's call in a loss, besides `inputs` and `train`.
      members: fields and methods of the model that a loss uses.
      models: examples of models that it suits, for messages.
    """

    frozen: ClassVar[tuple[str, ...]] = ()
    arguments: ClassVar[tuple[str, ...]] = ()
    members: ClassVar[tuple[str, ...]] = ()
    models: ClassVar[str] = ""

    @property
    def required_keys(self) -> tuple[str, ...]:
        """Keys that a batch must have; "image | tokens" is one of them, or both. A class may set it as an attribute."""
        raise NotImplementedError

    def inputs(self, model: Any, batch: Batch) -> dict[str, Any]:
        """The model's arguments: what it reads of the batch, unless the objective changes or makes some of them."""
        required = select_keys(batch, *(name for name in self.required_keys if name in MODALITIES))
        return required | model_inputs(model, batch)

    def init(self, model: Any, rngs: dict[str, jax.Array], batch: Batch) -> PyTree:
        """The model's variables, drawn by one call with `inputs`.

        An objective that calls other methods of the model, or several models, overrides it, so that the variables of
        all of them are drawn; and `check_model`.

        Raises:
          UserError: the objective does not suit the model, by `check_model` or `check_output`.
        """
        self.check_model(model, batch)
        output, variables = model.init_with_output(rngs, **self.inputs(model, batch))
        self.check_output(model, output, batch)
        return variables

    def check_model(self, model: Any, batch: Batch) -> None:
        """Compares what the model's call takes, its fields and its methods with what the objective needs; no tracing.

        Raises:
          UserError: the two don't suit each other.
        """
        check_arguments(model, [*self.inputs(model, batch), *self.arguments, "train"], self)
        check_members(model, self)

    def check_output(self, model: Any, output: Any, batch: Batch) -> None:
        """Compares the model's output for a batch, its type and shape, with what the loss reads.

        Raises:
          UserError: the two don't suit each other.
        """

    def check(self, model: Any, data: Dataset) -> None:
        """Checks the objective against the model and the training data, without tracing.

        Raises:
          UserError: it doesn't fit; the field's name begins with `config.` or, for the objective itself, `objective`.
        """
        check_model_data(model, data)

    def __call__(self, model: Any, variables: PyTree, batch: Batch, key: jax.Array, train: bool) -> ObjectiveOutput:
        """The losses and metrics of a batch, as sums and counts.

        Args:
          variables: {"params": ..., and the model's other collections}.
          key: of this step. Draws for an example depend on it and on the example's id alone, so that neither the
            mesh nor the split into microbatches changes them; dropout depends on the microbatch.
          train: whether dropout is active and mutable collections are updated.
        """
        raise NotImplementedError


def missing_keys(needs: Iterable[str], keys: Iterable[str]) -> list[str]:
    """The required keys (`a`, or `a | b` for either) that are not among `keys`."""
    present = set(keys)
    return [need for need in needs if not present & set(need.split(" | "))]


def check_arguments(model: Any, names: Iterable[str], objective: Objective | None = None, method: str = "") -> None:
    """Raises UserError unless a call of the model takes these arguments and needs no others.

    What stands for a model, with `apply` alone, takes all.

    Args:
      objective: that calls the model, for the message.
      method: that is called. If empty, `__call__`.
    """
    call = getattr(model, method or "__call__", None)
    if call is None and not method:
        return
    purpose = f", for {type(objective).__name__}" if objective else ""
    if call is None:
        raise UserError("config.model", f"a model with the method {method}{purpose}", type(model).__name__)
    parameters = inspect.signature(call).parameters.values()
    if any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters):
        return
    known = [parameter.name for parameter in parameters if parameter.kind is not parameter.VAR_POSITIONAL]
    needed = [parameter.name for parameter in parameters if parameter.default is parameter.empty]
    names = list(names)
    if unknown := [name for name in names if name not in known]:
        got = f"{type(model).__name__}, which takes {', '.join(name for name in known if name != 'train')}"
        raise UserError("config.model", f"a model that takes {', '.join(unknown)}{purpose}", got, hint=_hint(objective))
    if missing := [name for name in needed if name in known and name not in names]:
        if lacking := [name for name in missing if name in MODALITIES]:
            expected = f"examples with {', '.join(lacking)}, which {type(model).__name__} reads"
            raise UserError("config.data", expected, f"examples with {', '.join(names[:-1]) or 'none of these'}")
        expected = f"an objective that gives {type(model).__name__} {', '.join(missing)}"
        got = f"{type(objective).__name__ if objective else 'one'}, which gives {', '.join(names)}"
        raise UserError("config.objective", expected, got, hint=_hint(objective))


def check_members(model: Any, objective: Objective) -> None:
    """Raises UserError unless the model has the fields and methods that the objective uses."""
    if missing := [name for name in objective.members if not hasattr(model, name)]:
        expected = f"a model with {', '.join(missing)}, for {type(objective).__name__}"
        raise UserError("config.model", expected, type(model).__name__, hint=_hint(objective))


def _hint(objective: Objective | None) -> str:
    if objective is None or not objective.models:
        return ""
    return f"{type(objective).__name__} suits models such as {objective.models}"


@dataclasses.dataclass(frozen=True)
class AuxOutputs:
    """Auxiliary outputs of a call of a model.

    Attributes:
      state: the model's collections other than the parameters.
      losses, metrics: what modules sowed (`nn.sow_aux`), averaged over the examples that have weight.
    """

    state: PyTree
    losses: dict[str, Mean] = dataclasses.field(default_factory=dict)
    metrics: dict[str, Mean] = dataclasses.field(default_factory=dict)

    def outcome(self, losses: dict[str, Mean], metrics: dict[str, Mean]) -> ObjectiveOutput:
        """The objective's output, from its own losses and metrics and those that were sown."""
        assert not set(losses) & set(self.losses) and not set(metrics) & set(self.metrics)
        return ObjectiveOutput(losses | self.losses, metrics | self.metrics, self.state)


def apply_model(
    model: Any,
    variables: PyTree,
    inputs: dict[str, Any],
    batch: Batch,
    key: jax.Array,
    train: bool,
    method: str | Callable[..., Any] | None = None,
) -> tuple[Any, AuxOutputs]:
    """The output of a call of the model, and its auxiliary outputs (none if not `train`).

    Args:
      method: the method to call, or a function of the bound model and the inputs that calls several. If None,
        `__call__`.

    Raises:
      UserError: the model's call doesn't take the inputs.
    """
    if not callable(method):
        check_arguments(model, [*inputs, "train"], method=method or "")
    state = {name: value for name, value in variables.items() if name != "params"}
    inputs = inputs if method is None else inputs | {"method": method}
    if not train:
        return model.apply(variables, **inputs, train=False), AuxOutputs(state)
    rngs = {"dropout": jax.random.fold_in(key, batch["id"][0])}
    output, changed = model.apply(variables, **inputs, train=True, rngs=rngs, mutable=[*state, *AUX_COLLECTIONS])
    changed = dict(changed)
    sown = [_by_name(changed.pop(kind, {})) for kind in AUX_COLLECTIONS]
    weighted = batch["weights"].reshape(len(batch["id"]), -1).max(1) > 0
    losses = {name: Mean.of(values.sum(0)[:, 0], weighted) for name, values in sown[0].items()}
    metrics: dict[str, Mean] = {}
    for name, values in sown[1].items():
        metrics |= _means(name, values.mean(0), weighted)
    for name, values in sown[2].items():
        for layer, numbers in enumerate(values):
            metrics |= _means(f"{name}/layer_{layer}", numbers, weighted)
    return output, AuxOutputs(changed, losses, metrics)


def _means(name: str, values: Float[Array, "B N"], weighted: Bool[Array, "B"]) -> dict[str, Mean]:
    """The means over the examples that have weight, numbered if an example has several values."""
    names = [name] if values.shape[1] == 1 else [f"{name}_{i}" for i in range(values.shape[1])]
    return {name: Mean.of(column, weighted) for name, column in zip(names, values.T, strict=True)}


def _by_name(sown: PyTree) -> dict[str, jax.Array]:
    """Sown values by name: [layers B N], concatenated over all stacks."""
    parts_by_name: dict[str, list[jax.Array]] = {}
    for path, values in flat_paths(sown).items():
        parts_by_name.setdefault(path.rpartition("/")[2], []).append(values.reshape(-1, *values.shape[-2:]))
    return {name: jnp.concatenate(parts) for name, parts in parts_by_name.items()}


def model_inputs(model: Any, batch: Mapping[str, Any]) -> dict[str, Any]:
    """What a model reads of a batch: what it says, or the modalities among its call's arguments."""
    if callable(reads := getattr(model, "inputs", None)):
        return reads(batch)  # type: ignore[no-any-return]
    return read_modalities(type(model).__call__ if callable(model) else None, batch)


def source_inputs(model: Any, batch: Batch) -> dict[str, Any]:
    """What a model reads of a batch besides the text that it writes: the source of an encoder-decoder."""
    return model_inputs(model, select_keys(batch, *SOURCES))


def select_keys(batch: Batch, *names: str) -> dict[str, jax.Array]:
    """The named arrays of the batch; missing ones are skipped."""
    return {name: batch[name] for name in names if name in batch}


def example_keys(key: jax.Array, batch: Batch) -> jax.Array:
    """A key for each example [B], which depends on its id alone."""
    return jax.vmap(jax.random.fold_in, (None, 0))(key, batch["id"])
