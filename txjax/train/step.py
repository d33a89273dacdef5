"""One update as one pure function: (state, batch) -> (state, metrics)."""

from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import optax

from txjax import backend
from txjax.eval.evaluation import named_sums
from txjax.experiment import Experiment
from txjax.nn import microbatch_of
from txjax.objectives import ComparingObjective, Others
from txjax.train.layer_norms import norm_metrics
from txjax.train.microbatches import accumulate, split_microbatches
from txjax.train.state.state import Layout, batch_specs
from txjax.train.state.subtrees import merge
from txjax.types import Batch, Mean, ObjectiveOutput, PyTree, TrainState

Step = Callable[[TrainState, Batch], tuple[TrainState, dict[str, Any]]]


def total(losses: dict[str, Mean]) -> jax.Array:
    """The loss: the sum of its terms' means."""
    return jnp.stack([mean.value for mean in losses.values()]).sum()


def make_step(experiment: Experiment, layout: Layout) -> Step:
    """The pure train step of an experiment, not yet jitted.

    The loss is sum_k total_k / count_k over the terms k, with counts of the whole batch, so an update does not depend
    on how the batch is cut into microbatches, whatever the weights are. A loss or gradient that isn't finite, a spike,
    or a batch without any weight leaves parameters, moments, averages and model state as they were.

    Metrics: `loss`, `grad_norm` and `lr` of this step, scalars; `skipped`, int32 [2]; `sums`, a `Mean` for each term
    of the loss and each metric of the objective (`named_sums`); `norms` if the experiment has them (`norm_metrics`).
    """
    model = experiment.model
    objective = experiment.objective
    parts = experiment.microbatches
    ema = experiment.ema
    spikes = experiment.spikes
    alternates = len(experiment.data.batch_specs()) > 1
    shardings = jax.tree.map(lambda x: x.sharding, layout.abstract.opt_state)

    def step(state: TrainState, batch: Batch) -> tuple[TrainState, dict[str, Any]]:
        key = jax.random.fold_in(jax.random.key(experiment.seed), state.step)

        def all_variables(params: PyTree, model_state: PyTree) -> PyTree:
            return {"params": merge(params, state.frozen), **model_state}

        def objective_output(
            params: PyTree, model_state: PyTree, batch: Batch, others: Others | None = None
        ) -> ObjectiveOutput:
            more = {} if others is None else {"others": others}
            return objective(model, all_variables(params, model_state), batch, key, train=True, **more)

        def loss(
            params: PyTree, model_state: PyTree, batch: Batch, counts: Any = None, others: Others | None = None
        ) -> tuple[jax.Array, ObjectiveOutput]:
            output = objective_output(params, model_state, batch, others)
            if counts is None:
                return total(output.losses), output
            # This batch is a part of the one that is counted.
            whole = {name: Mean(mean.total, counts[name]) for name, mean in output.losses.items()}
            return total(whole), output

        def survey(batch: Batch) -> tuple[dict[str, jax.Array], PyTree]:
            # Counts don't depend on parameters, so the compiler drops the model from this call.
            output = objective_output(state.params, state.model_state, batch, None)
            counts = {name: mean.count for name, mean in output.losses.items()}
            if not isinstance(objective, ComparingObjective):
                return counts, None
            variables = all_variables(state.params, state.model_state)
            return counts, objective.encode(model, variables, batch, key, train=True)[0]

        if parts == 1:
            grads, output = jax.grad(loss, has_aux=True)(state.params, state.model_state, batch)
        else:
            # The model is traced once: for counts, shapes and the gradient.
            objective_output = jax.jit(objective_output, inline=True)
            with microbatch_of(parts):
                grads, output = accumulate(
                    loss, survey, state.params, state.model_state, split_microbatches(batch, parts)
                )

        grad_norm = optax.tree.norm(grads)
        loss_value = total(output.losses)
        old_opt_state = backend.fetch(state.opt_state, shardings)
        good = jnp.isfinite(loss_value) & jnp.isfinite(grad_norm) & jnp.isfinite(optax.tree.norm(output.model_state))
        good &= True if spikes is None else ~spikes.is_spike(old_opt_state, grad_norm)
        good &= jnp.stack([mean.count for mean in output.losses.values()]).any()
        updates, opt_state = layout.tx.update(grads, old_opt_state, state.params)
        params = optax.apply_updates(state.params, updates)
        done = state.step - state.skipped[1]
        average = {} if ema is None else ema.update(state.ema, params, done + 1)
        params, opt_state, model_state, average = jax.tree.map(
            lambda new, old: jnp.where(good, new, old),
            (params, opt_state, output.model_state, average),
            (state.params, old_opt_state, state.model_state, state.ema),
        )
        opt_state = backend.offload(opt_state, shardings)
        skipped = jnp.where(good, state.skipped * jnp.array([0, 1]), state.skipped + 1)
        metrics = {"loss": loss_value, "grad_norm": grad_norm, "lr": layout.rate(done)}
        sums = named_sums((output.losses, output.metrics))
        if alternates:  # the steps between two rows are of different tasks: their loss is its mean over steps
            sums["loss"] = Mean(loss_value, jnp.ones(()))
        applied = jax.tree.map(lambda update: jnp.where(good, update, 0), updates)
        trees = {"parameter_norm": params, "gradient_norm": grads, "update_norm": applied}
        metrics |= {"skipped": skipped, "sums": sums} | norm_metrics(experiment, state.step + 1, trees, layout.axes)
        new = TrainState(state.step + 1, params, state.frozen, model_state, opt_state, skipped, average)
        return new, metrics

    return step


def jit_step(experiment: Experiment, layout: Layout) -> Any:
    """The step, compiled for the run's layout; the old state's memory is reused for the new one."""
    shardings = jax.tree.map(lambda x: x.sharding, layout.abstract)
    return backend.jit(
        make_step(experiment, layout),
        in_shardings=(shardings, layout.batch),
        out_shardings=(shardings, None),
        donate_argnums=0,
    )


def trace_step(experiments: Sequence[Experiment], layout: Layout) -> Step:
    """The jitted step of a run, traced for the batches of each task: it compiles when called, and traces nothing anew.

    Args:
      experiments: of the run's phases that differ in the shapes of their batches alone.
    """
    step = jit_step(experiments[0], layout)
    for experiment in experiments:
        for spec in batch_specs(experiment, layout.batch).values():
            jax.eval_shape(step, layout.abstract, spec)
    return step
