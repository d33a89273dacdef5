"""The training state: traced from the data's spec, laid out by the mesh, drawn on the devices."""

import dataclasses
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import optax
from flax.core import meta
from jax.sharding import NamedSharding, PartitionSpec

from txjax import backend, sharding
from txjax.axes import axes_of
from txjax.experiment import Experiment
from txjax.nn import parameter_sizes, record_parameters
from txjax.parametrization import scaling_by_path
from txjax.train.state.pace import paced_optimizer
from txjax.train.state.subtrees import SEPARATOR, merge, pick
from txjax.types import PyTree, TrainState, flat_paths, path_name


def batch_spec(data: Any, batch_size: int, place: NamedSharding | None = None) -> dict[str, jax.ShapeDtypeStruct]:
    """The shapes and dtypes of a batch of a data set, and the sharding that its arrays have, if one is passed."""
    spec = data.spec().items()
    return {key: jax.ShapeDtypeStruct((batch_size, *x.shape), x.dtype, sharding=place) for key, x in spec}


def batch_specs(
    experiment: Experiment, place: NamedSharding | None = None
) -> dict[str, dict[str, jax.ShapeDtypeStruct]]:
    """The `batch_spec` of the batches of a run by the task that they are of; one, "", where all are alike."""
    return {
        task: {
            key: jax.ShapeDtypeStruct((experiment.batch_size, *x.shape), x.dtype, sharding=place)
            for key, x in spec.items()
        }
        for task, spec in experiment.data.batch_specs().items()
    }


def model_variables(state: TrainState) -> dict[str, PyTree]:
    """The state's model variables, as `model.apply` takes them: averages of weights where the run keeps them."""
    return {"params": merge(state.ema or state.params, state.frozen), **state.model_state}


class ModelTrace(NamedTuple):
    """What a trace of the model's `init` shows.

    Attributes:
      boxed: its variables, shapes and dtypes, boxed with their logical axes.
      calls: the order of parameters in each of its calls.
      draw: draws the variables from a key. Jitted: inside of a program it has this trace, and needs no other.
    """

    boxed: PyTree
    calls: list[list[str]]
    draw: Callable[[jax.Array], PyTree]

    @property
    def parameters(self) -> dict[str, jax.ShapeDtypeStruct]:
        """The shape and dtype of every parameter, by path."""
        return flat_paths(meta.unbox(self.boxed["params"]))


@dataclasses.dataclass(frozen=True)
class Layout:
    """Shapes, dtypes and shardings of a run's state and batches, before any array is made.

    Attributes:
      axes: logical axes of every parameter, by its path in the tree.
      tx: the optimizer's transformation.
      rate: the learning rate of each update, from 0.
      begin: the state of step 0 with these variables of the model.
      abstract: the state's shapes, dtypes and shardings.
      batch: sharding of every array of a batch.
      trace: of the model.
    """

    axes: PyTree
    tx: optax.GradientTransformation
    rate: optax.Schedule
    begin: Callable[[PyTree], TrainState]
    abstract: TrainState
    batch: NamedSharding
    trace: ModelTrace

    @property
    def parameters(self) -> int:
        """The number of parameters, trainable and frozen."""
        return sum(parameter_sizes(self.variables["params"]).values())

    @property
    def variables(self) -> PyTree:
        """The model's variables, frozen ones too: shapes and dtypes."""
        variables = {"params": merge(self.abstract.params, self.abstract.frozen), **self.abstract.model_state}
        return jax.tree.map(lambda x: jax.ShapeDtypeStruct(x.shape, x.dtype), variables)

    def init(self, key: jax.Array) -> TrainState:
        """Draws the whole state from a key, of the model that was traced; not yet jitted."""
        return self.begin(meta.unbox(self.trace.draw(key)))

    def create(self, seed: int) -> TrainState:
        """Draws the state sharded: no host or device ever has more than its shards."""
        shardings = jax.tree.map(lambda x: x.sharding, self.abstract)
        return backend.jit_once(self.init, self.parameters, out_shardings=shardings)(jax.random.key(seed))


def draw_variables(experiment: Experiment, key: jax.Array) -> PyTree:
    """The model's variables, boxed with their logical axes. They depend on shapes alone: zeros stand for a batch."""
    params_key, dropout_key = jax.random.split(key)
    rngs = {"params": params_key, "dropout": dropout_key}
    spec = batch_spec(experiment.data, experiment.batch_size)
    zeros = {name: jnp.zeros(x.shape, x.dtype) for name, x in spec.items()}
    return experiment.objective.init(experiment.model, rngs, zeros)


def trace_model(experiment: Experiment) -> ModelTrace:
    """Traces the model's `init` for a batch of the experiment's data."""
    draw = jax.jit(lambda key: draw_variables(experiment, key), inline=True)
    with record_parameters() as calls:
        return ModelTrace(jax.eval_shape(draw, _key_spec()), calls, draw)


def _key_spec() -> jax.ShapeDtypeStruct:
    """A key on the active mesh: a real one would need the mesh's devices, which may not be on this machine."""
    key = jax.eval_shape(jax.random.key, 0)
    mesh = sharding.active()
    place = None if mesh is None else NamedSharding(mesh, PartitionSpec())
    return jax.ShapeDtypeStruct(key.shape, key.dtype, sharding=place)


def abstract_variables(experiment: Experiment) -> PyTree:
    """The model's variables as `init` would draw them: shapes and dtypes, boxed with their logical axes."""
    return trace_model(experiment).boxed


def build_layout(experiment: Experiment, built: jax.sharding.Mesh, trace: ModelTrace | None = None) -> Layout:
    """Traces the run's state; runs nothing. Call it inside `sharding.use_mesh(experiment.mesh)`.

    Args:
      trace: of a model and batches like these, whose numbers `Layout.init` draws. If None, the model is traced here.
    """
    mesh = experiment.mesh
    optimizer = paced_optimizer(experiment).tuning(experiment.model)
    ema = experiment.ema
    trace = trace or trace_model(experiment)
    boxed = trace.boxed
    axes = jax.tree.map(axes_of, boxed["params"], is_leaf=lambda x: isinstance(x, meta.AxisMetadata))
    names = flat_paths(axes, is_leaf=sharding.is_axes)
    optimizer.assign(names)
    shapes = {path: x.shape for path, x in trace.parameters.items()}
    below = optimizer.below_head(trace.calls, names, shapes)
    scaling = scaling_by_path(getattr(experiment.model, "scalings", lambda: {"": None})())
    rate = optimizer.lr(experiment.num_steps)
    tx = optimizer.build(experiment.num_steps, pick(axes, optimizer.trained), below, scaling)
    tx = experiment.spikes.watch(tx) if experiment.spikes else tx

    def begin(variables: PyTree) -> TrainState:
        params = variables["params"]
        chosen = pick(params, optimizer.trained)
        return TrainState(
            step=jnp.zeros((), jnp.int32),
            params=chosen,
            frozen=pick(params, optimizer.frozen),
            model_state={name: tree for name, tree in variables.items() if name != "params"},
            opt_state=tx.init(chosen),
            skipped=jnp.zeros((2,), jnp.int32),
            ema={} if ema is None else ema.begin(chosen),
        )

    traced = jax.eval_shape(begin, meta.unbox(boxed))
    whole = NamedSharding(built, PartitionSpec())
    params = sharding.shardings(axes, merge(traced.params, traced.frozen), mesh, built)
    trained = pick(params, optimizer.trained)
    moments = params
    if mesh.moments == "host":
        backend.need_host_memory("config.mesh.moments")
        moments = jax.tree.map(backend.to_host, params)
    shardings = TrainState(
        step=whole,  # type: ignore[arg-type]
        params=trained,
        frozen=pick(params, optimizer.frozen),
        model_state=jax.tree.map(lambda _: whole, traced.model_state),
        opt_state=_like_params(traced.opt_state, traced.params, moments, whole),
        skipped=whole,  # type: ignore[arg-type]
        ema=trained if ema else {},
    )
    abstract = jax.tree.map(lambda x, s: jax.ShapeDtypeStruct(x.shape, x.dtype, sharding=s), traced, shardings)
    return Layout(axes, tx, rate, begin, abstract, sharding.batch_sharding(built, mesh), trace)


def _like_params(opt_state: PyTree, params: PyTree, shardings: PyTree, whole: NamedSharding) -> PyTree:
    """Moments are sharded like their parameter: the one whose shape they have, and whose path theirs ends in."""
    shapes = flat_paths(params)
    of_params = flat_paths(shardings)

    def sharding_of(path: tuple[Any, ...], leaf: jax.ShapeDtypeStruct) -> NamedSharding:
        parts = path_name(path).split(SEPARATOR)
        for i in range(len(parts)):
            name = SEPARATOR.join(parts[i:])
            if name in shapes and shapes[name].shape == leaf.shape:
                return of_params[name]
        return whole

    return jax.tree_util.tree_map_with_path(sharding_of, opt_state)
