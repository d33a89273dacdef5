"""What one update of an experiment costs: tokens, parameters, FLOPs. Counted from traces; nothing runs."""

import math
from collections.abc import Callable

import jax
import jax.numpy as jnp
from flax.core import meta

from txjax import sharding
from txjax.experiment import Experiment
from txjax.flops import count
from txjax.train.state import Layout, abstract_variables, batch_spec, merge, pick
from txjax.types import Batch, PyTree, flat_paths


def step_costs(experiment: Experiment, layout: Layout) -> dict[str, int]:
    """Parameters, FLOPs and tokens of an update, as the manifest has them."""
    parameters, without_tables = count_parameters(layout.variables["params"])
    return {
        "parameters": parameters,
        "parameters_without_embeddings": without_tables,
        "flops_per_step": flops_per_step(experiment, layout.variables),
        "tokens_per_step": tokens_per_batch(experiment),
    }


def tokens_per_batch(experiment: Experiment) -> int:
    """Places of the residual stream in one batch: the tokens D of scaling laws; of images, their patches.

    Of a model that cuts nothing into patches they are the examples.
    """
    spec, batch_size = experiment.data.spec(), experiment.batch_size
    if "tokens" in spec:
        return batch_size * math.prod(spec["tokens"].shape)
    if "image" not in spec or not hasattr(experiment.model, "patch"):
        return batch_size
    height, width = spec["image"].shape[:2]
    return batch_size * (height // experiment.model.patch) * (width // experiment.model.patch)


def count_parameters(params: PyTree) -> tuple[int, int]:
    """How many numbers there are; and without tables that are looked up (of tokens, positions, types).

    The second is close to the N of Kaplan et al. (2020, 2.1); an untied head counts.
    """
    sizes = {path: math.prod(x.shape) for path, x in flat_paths(params).items()}
    return sum(sizes.values()), sum(size for path, size in sizes.items() if not path.endswith("/embedding"))


def forward_of(experiment: Experiment) -> Callable[[PyTree, PyTree, Batch], jax.Array]:
    """The forward pass as one number of (parameters, the other variables, batch): what counts and traces go through."""

    def forward(params: PyTree, held: PyTree, batch: Batch) -> jax.Array:
        variables = held | {"params": merge(params, held.get("params", {}))}
        losses = experiment.objective(experiment.model, variables, batch, jax.random.key(0), train=True).losses
        return jnp.stack([mean.total for mean in losses.values()]).sum()

    return forward


def flops_per_step(
    experiment: Experiment, held: PyTree | None = None, batch: dict[str, jax.ShapeDtypeStruct] | None = None
) -> int:
    """FLOPs of one update: the objective's forward pass, counted from its own operations, and twice that backward.

    Where parameters are frozen the gradient's own operations are counted instead: their gradients, and all that only
    these would need, are never computed. (Then what `stack.remat` computes again below them counts too.)

    Args:
      held: the model's variables, as `Layout.variables`; None = they are traced for it.
      batch: the batch's spec; None = the data's own, which no bucket cut.
    """
    optimizer, forward = experiment.optimizer, forward_of(experiment)
    held = held or meta.unbox(abstract_variables(experiment))
    spec = batch or batch_spec(experiment.data, experiment.batch_size)
    params, frozen = pick(held["params"], optimizer.trained), pick(held["params"], optimizer.frozen)
    held = held | {"params": frozen}
    with sharding.no_mesh():  # what a pipeline computes for nobody doesn't count
        if not frozen:
            return 3 * count(forward, params, held, spec)
        return count(jax.grad(forward), params, held, spec)
