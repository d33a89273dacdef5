"""What one update of an experiment costs: tokens, parameters, FLOPs. Counted from traces; nothing runs."""

import math
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from flax.core import meta

from txjax import sharding
from txjax.changes import Phase, phases
from txjax.data.dataset import Spec
from txjax.data.keys import part_of
from txjax.experiment import Experiment
from txjax.flops import count, prune_function
from txjax.nn import parameter_sizes
from txjax.objectives import model_inputs
from txjax.train.state.pace import TOKENS
from txjax.train.state.state import Layout, abstract_variables, batch_spec, batch_specs
from txjax.train.state.subtrees import merge, pick
from txjax.types import Batch, PyTree


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
    """Positions of the residual stream in one batch: tokens (the D of scaling laws), of sources too; patches of images.

    Of audio, the frames that leave the encoder's subsampling, or patches. The positions of several tasks are added up,
    or, where each batch is of one task, averaged over the run's steps, as where batches change.
    For a model that takes none of these, examples.
    """
    run = phases(experiment)
    return round(sum(phase.steps * tokens_of_phase(phase.experiment) for phase in run) / experiment.num_steps)


def tokens_of_phase(experiment: Experiment) -> float:
    """`tokens_per_batch` of an experiment without changes, not rounded."""
    shares = experiment.data.batch_shares(experiment.seed, experiment.num_steps)
    specs = experiment.data.batch_specs()
    positions = sum(share * _positions(experiment.model, specs[task]) for task, share in shares.items())
    return experiment.batch_size * (positions + audio_positions(experiment) or 1)


def _positions(model: Any, spec: Spec) -> int:
    """The tokens and the patches of an example."""
    patch = getattr(model, "patch", None)
    positions = 0
    for key, x in spec.items():
        name = part_of(key)[1]
        if name in TOKENS:
            positions += math.prod(x.shape)
        elif name == "image" and patch is not None:
            *rows, height, width, _ = x.shape
            positions += math.prod(rows) * (height // patch) * (width // patch)
    return positions


def audio_positions(experiment: Experiment) -> int:
    """The positions of one example's audio in the model's encoders; 0 if it encodes none."""
    count = getattr(experiment.model, "encoded_positions", None)
    if count is None or not {"audio", "features"} & set(experiment.data.spec()):
        return 0
    inputs = jax.eval_shape(lambda batch: model_inputs(experiment.model, batch), batch_spec(experiment.data, 1))
    return int(count(*inputs["features"].shape[1:])) if "features" in inputs else 0


def count_parameters(params: PyTree) -> tuple[int, int]:
    """The number of parameters; and the same without embedding tables (of tokens, positions, types).

    The second is close to the N of Kaplan et al. (2020, 2.1); an untied head counts.
    """
    sizes = parameter_sizes(params)
    return sum(sizes.values()), sum(size for path, size in sizes.items() if not path.endswith("/embedding"))


def forward_of(experiment: Experiment) -> Callable[[PyTree, PyTree, Batch], jax.Array]:
    """The forward pass as a scalar function of (parameters, the other variables, batch), to be traced and counted."""

    def forward(params: PyTree, others: PyTree, batch: Batch) -> jax.Array:
        variables = others | {"params": merge(params, others.get("params", {}))}
        losses = experiment.objective(experiment.model, variables, batch, jax.random.key(0), train=True).losses
        return jnp.stack([mean.total for mean in losses.values()]).sum()

    return forward


def flops_per_step(
    experiment: Experiment, variables: PyTree | None = None, batch: dict[str, jax.ShapeDtypeStruct] | None = None
) -> int:
    """FLOPs of one update: the objective's forward pass, counted from its own operations, and twice that backward.

    Where parameters are frozen the gradient's own operations are counted instead: their gradients, and all that only
    these would need, are never computed. (Then what `stack.remat` computes again below them counts too.)

    Args:
      variables: the model's, as `Layout.variables`. If None, they are traced.
      batch: the batch's spec. If None, the data set's, not cut to a bucket's length; where each batch is of one
        task, or where batches change, the mean over the run's steps.
    """
    variables = variables or meta.unbox(abstract_variables(experiment))
    if batch is not None:
        return _flops_of(experiment, variables, batch)
    run = phases(experiment)
    return round(sum(phase.steps * _mean_flops(phase.experiment, variables) for phase in run) / experiment.num_steps)


def _mean_flops(experiment: Experiment, variables: PyTree) -> float:
    """FLOPs of an update of an experiment without changes, the mean over its tasks."""
    shares = experiment.data.batch_shares(experiment.seed, experiment.num_steps)
    specs = batch_specs(experiment)
    return sum(share * _flops_of(experiment, variables, specs[task]) for task, share in shares.items() if share)


def costliest_phase(experiment: Experiment) -> Phase:
    """The phase of an experiment whose microbatches take the most FLOPs, and so the most memory."""
    run = phases(experiment)
    if len(run) == 1:
        return run[0]
    variables = meta.unbox(abstract_variables(experiment))
    return max(run, key=lambda phase: _mean_flops(phase.experiment, variables) / phase.experiment.microbatches)


def costliest_batch(experiment: Experiment, variables: PyTree | None = None) -> tuple[str, Spec]:
    """The task and the spec of the batches whose update takes the most FLOPs; "" where all batches are alike."""
    specs = batch_specs(experiment)
    if len(specs) == 1:
        return next(iter(specs.items()))
    variables = variables or meta.unbox(abstract_variables(experiment))
    return max(specs.items(), key=lambda item: _flops_of(experiment, variables, item[1]))


def _flops_of(experiment: Experiment, variables: PyTree, spec: Spec) -> int:
    """FLOPs of one update on a batch of this spec."""
    optimizer = experiment.optimizer.tuning(experiment.model)
    forward = forward_of(experiment)
    params = pick(variables["params"], optimizer.trained)
    frozen = pick(variables["params"], optimizer.frozen)
    others = variables | {"params": frozen}
    with sharding.no_mesh():  # a pipeline's idle stages compute what is thrown away: it doesn't count
        if not frozen:
            return 3 * count(forward, params, others, spec)
        return count(prune_function(jax.grad(forward)), params, others, spec)
