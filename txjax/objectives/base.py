"""What every objective is, and what several of them need."""

import dataclasses
from collections.abc import Iterable
from typing import Any, ClassVar

import jax

from txjax.types import Batch, Outcome, PyTree


@dataclasses.dataclass
class Objective:
    """What is minimised: a pure function of a model, its variables and a batch.

    Attributes:
      needs: keys that a batch must have; "image | tokens" is one of them, or both.
    """

    needs: ClassVar[tuple[str, ...]] = ()

    def inputs(self, batch: Batch) -> dict[str, Any]:
        """The arguments that the model is called with; `model.init(key, **inputs)` makes its variables."""
        raise NotImplementedError

    def __call__(self, model: Any, variables: PyTree, batch: Batch, key: jax.Array, train: bool) -> Outcome:
        """The losses and metrics of a batch, as sums and counts.

        Args:
          variables: {"params": ..., and the model's other collections}.
          key: of this step. Draws for an example depend on it and on the example's id alone, so that neither the
            mesh nor the split into microbatches changes them; dropout depends on the microbatch.
          train: dropout is active and mutable collections change.
        """
        raise NotImplementedError


def unmet(needs: Iterable[str], keys: Iterable[str]) -> list[str]:
    """The needs (`a`, or `a | b` for either) that a batch with these keys doesn't meet."""
    given = set(keys)
    return [need for need in needs if not given & set(need.split(" | "))]


def run(
    model: Any, variables: PyTree, inputs: dict[str, Any], batch: Batch, key: jax.Array, train: bool
) -> tuple[Any, PyTree]:
    """Calls the model: its output, and its collections other than the parameters."""
    state = {name: value for name, value in variables.items() if name != "params"}
    if not train:
        return model.apply(variables, **inputs, train=False), state
    rngs = {"dropout": jax.random.fold_in(key, batch["id"][0])}
    output, changed = model.apply(variables, **inputs, train=True, rngs=rngs, mutable=list(state))
    return output, dict(changed)


def pick(batch: Batch, *names: str) -> dict[str, jax.Array]:
    """Those of the named arrays that the batch has."""
    return {name: batch[name] for name in names if name in batch}


def example_keys(key: jax.Array, batch: Batch) -> jax.Array:
    """A key for each example [B], by its id alone."""
    return jax.vmap(jax.random.fold_in, (None, 0))(key, batch["id"])
