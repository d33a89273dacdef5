"""The traces of a run: each shows mistakes, and is what the run compiles later."""

from typing import NamedTuple

import jax

from txjax import sharding
from txjax.checks import Checks
from txjax.eval.evaluator import Programs
from txjax.experiment import Experiment
from txjax.nn import microbatch_of
from txjax.train.check_changes import check_parameters
from txjax.train.check_scores import check_scores
from txjax.train.state.counting import forward_of
from txjax.train.state.frozen_parts import check_frozen
from txjax.train.state.shared_modules import check_shared_modules
from txjax.train.state.state import Layout, batch_spec, build_layout, trace_model
from txjax.user_code import user_code_errors

# What the trace of the model reads besides the spec of the data, and what the layout reads: an error there leaves
# it out.
MODEL = [f"config.{field}" for field in ["model", "objective", "mesh", "batch_size", "microbatches", "seed"]]
LAYOUT = MODEL + [f"config.{field}" for field in ["optimizer", "ema", "spikes", "num_steps"]]


class Traces(NamedTuple):
    """What was traced of a run. Compiled inside of its mesh, nothing of it is traced again.

    Attributes:
      layout: of the state and of a batch; it draws the first state.
      programs: of the evaluations whose scores the config names.
    """

    layout: Layout
    programs: Programs


def check_traces(checks: Checks, experiment: Experiment) -> Traces | None:
    """Checks shapes, shardings, shared and frozen parameters, and the names of scores.

    Args:
      experiment: with the data of its evaluations filled in. The spec of its training data has no error.

    Returns:
      None if the variables can't be traced or laid out: `checks` has an error then.
    """
    if any(map(checks.has_error, MODEL)):
        return None
    programs: Programs = {}
    user_code = user_code_errors("config.model, config.objective")
    with sharding.use_mesh(experiment.mesh) as mesh:
        trace = checks.run(user_code(trace_model), experiment)
        if trace is None:
            return None
        checks.run(check_shared_modules, experiment, trace)
        checks.run(user_code(check_parameters), experiment, trace, needs=["config.changes", "config.num_steps"])
        checks.run(check_frozen, experiment, trace, needs=LAYOUT)
        layout = checks.run(user_code(build_layout), experiment, mesh, trace, needs=LAYOUT)
        if layout is None:
            return None
        scored = ("config.checkpoint", "config.stop", "config.evals")
        checks.run(user_code(check_scores), experiment, layout, programs, needs=scored)
    return Traces(layout, programs)


def check_model_state(experiment: Experiment, layout: Layout) -> None:
    """Traces the forward pass of a model with state: its groups may not suit the batch."""
    if layout.abstract.model_state:
        batch = batch_spec(experiment.data, experiment.batch_size // experiment.microbatches)
        with microbatch_of(experiment.microbatches):
            jax.eval_shape(forward_of(experiment), layout.variables["params"], layout.abstract.model_state, batch)
