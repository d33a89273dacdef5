"""What every objective is, and what several of them need."""

import dataclasses
from collections.abc import Iterable
from typing import Any, ClassVar

import jax
import jax.numpy as jnp

from txjax.nn import AUX_COLLECTIONS
from txjax.types import Batch, Mean, ObjectiveOutput, PyTree, flat_paths


@dataclasses.dataclass
class Objective:
    """What is minimised: a pure function of a model, its variables and a batch.

    Attributes:
      required_keys: keys that a batch must have; "image | tokens" is one of them, or both.
    """

    required_keys: ClassVar[tuple[str, ...]] = ()

    def inputs(self, batch: Batch) -> dict[str, Any]:
        """The arguments that the model is called with; `model.init(key, **inputs)` makes its variables."""
        raise NotImplementedError

    def __call__(self, model: Any, variables: PyTree, batch: Batch, key: jax.Array, train: bool) -> ObjectiveOutput:
        """The losses and metrics of a batch, as sums and counts.

        Args:
          variables: {"params": ..., and the model's other collections}.
          key: of this step. Draws for an example depend on it and on the example's id alone, so that neither the
            mesh nor the split into microbatches changes them; dropout depends on the microbatch.
          train: dropout is active and mutable collections change.
        """
        raise NotImplementedError


def missing_keys(needs: Iterable[str], keys: Iterable[str]) -> list[str]:
    """The needs (`a`, or `a | b` for either) that a batch with these keys doesn't meet."""
    given = set(keys)
    return [need for need in needs if not given & set(need.split(" | "))]


@dataclasses.dataclass(frozen=True)
class AuxOutputs:
    """What a call of a model gives beside its output.

    Attributes:
      state: the model's collections other than the parameters.
      losses, metrics: of what modules sowed (`nn.sow_aux`), the means over the examples that have weight.
    """

    state: PyTree
    losses: dict[str, Mean] = dataclasses.field(default_factory=dict)
    metrics: dict[str, Mean] = dataclasses.field(default_factory=dict)

    def outcome(self, losses: dict[str, Mean], metrics: dict[str, Mean]) -> ObjectiveOutput:
        """The outcome of these, the objective's own, and of what was sown."""
        assert not set(losses) & set(self.losses) and not set(metrics) & set(self.metrics)
        return ObjectiveOutput(losses | self.losses, metrics | self.metrics, self.state)


def apply_model(
    model: Any, variables: PyTree, inputs: dict[str, Any], batch: Batch, key: jax.Array, train: bool
) -> tuple[Any, AuxOutputs]:
    """Calls the model: its output, and its auxiliary outputs: none outside training."""
    state = {name: value for name, value in variables.items() if name != "params"}
    if not train:
        return model.apply(variables, **inputs, train=False), AuxOutputs(state)
    rngs = {"dropout": jax.random.fold_in(key, batch["id"][0])}
    output, changed = model.apply(variables, **inputs, train=True, rngs=rngs, mutable=[*state, *AUX_COLLECTIONS])
    changed = dict(changed)
    sown = [_by_name(changed.pop(kind, {})) for kind in AUX_COLLECTIONS]
    real = batch["weights"].reshape(len(batch["id"]), -1).max(1) > 0
    losses = {name: Mean.of(values.sum(0)[:, 0], real) for name, values in sown[0].items()}
    metrics: dict[str, Mean] = {}
    for name, values in sown[1].items():
        each = values.mean(0).T
        names = [name] if len(each) == 1 else [f"{name}_{i}" for i in range(len(each))]
        metrics |= {name: Mean.of(one, real) for name, one in zip(names, each, strict=True)}
    return output, AuxOutputs(changed, losses, metrics)


def _by_name(sown: PyTree) -> dict[str, jax.Array]:
    """What modules sowed, by its name: [layers B N], the layers of all stacks together."""
    found: dict[str, list[jax.Array]] = {}
    for path, values in flat_paths(sown).items():
        found.setdefault(path.rpartition("/")[2], []).append(values.reshape(-1, *values.shape[-2:]))
    return {name: jnp.concatenate(parts) for name, parts in found.items()}


def select_keys(batch: Batch, *names: str) -> dict[str, jax.Array]:
    """Those of the named arrays that the batch has."""
    return {name: batch[name] for name in names if name in batch}


def example_keys(key: jax.Array, batch: Batch) -> jax.Array:
    """A key for each example [B], by its id alone."""
    return jax.vmap(jax.random.fold_in, (None, 0))(key, batch["id"])
