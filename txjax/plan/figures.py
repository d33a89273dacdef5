"""The compute and memory of a run that do not depend on its devices."""

import collections
import dataclasses
import math

import jax
from flax.core import meta

from txjax import backend
from txjax.experiment import Experiment
from txjax.flops import by_scope, count, prune_function
from txjax.nn import parameter_sizes, stored_parts
from txjax.train.state.counting import costliest_batch, flops_per_step, forward_of
from txjax.train.state.state import abstract_variables
from txjax.train.state.subtrees import pick
from txjax.types import Batch, PyTree, flat_paths

_REPEATED = ("layers", "block")  # scopes of a stack's layers, dropped from names of components


@dataclasses.dataclass(frozen=True)
class Figures:
    """Figures of a run that do not depend on its devices.

    Attributes:
      parameters: by component, `trainable` and `frozen`.
      flops: of the forward pass over a batch, by component.
      flops_per_step: of an update, without recomputation.
      flops_done: of an update, including rematerialisation.
      kept: bytes of activations for one example kept on devices for the backward pass; the compiler may keep less.
      unit: "token" or "example".
      units: tokens or examples of an update.
      task: where each batch is of one task, the one whose update takes the most FLOPs, of which all figures are; else
        "".
    """

    parameters: dict[str, dict[str, int]]
    flops: dict[str, int]
    flops_per_step: int
    flops_done: int
    kept: int
    unit: str
    units: int
    task: str = ""


def figures(experiment: Experiment, platform: str) -> Figures:
    """The figures of an experiment, without running anything."""
    variables = meta.unbox(abstract_variables(experiment))
    task, spec = costliest_batch(experiment, variables)
    tokens = math.prod(spec["tokens"].shape) if "tokens" in spec else None
    arguments = _arguments(experiment, variables, experiment.batch_size)
    return Figures(
        parameters=_parameters(experiment, variables["params"]),
        flops=_flops(experiment, arguments),
        flops_per_step=flops_per_step(experiment, variables, spec),
        flops_done=_flops_done(experiment, arguments),
        kept=_kept_bytes(experiment, variables, platform),
        unit="token" if "tokens" in spec else "example",
        units=tokens or experiment.batch_size,
        task=task,
    )


def component(path: tuple[str, ...]) -> str:
    """The component of a path: `mlp` of `layers/block/mlp/up`, `decoder mlp` of `decoder/layers/block/mlp/up`."""
    names = [name for name in path if "." not in name and "," not in name]
    if any(name.startswith("pairs_") for name in names):
        return "attention scores"
    if "layers" in names:
        first = names.index("layers")
        inside = next((name for name in names[first:] if name not in _REPEATED), "layers")
        return " ".join([*names[:first], inside])
    return names[0] if names else "rest"


def _arguments(experiment: Experiment, variables: PyTree, batch_size: int) -> tuple[PyTree, PyTree, PyTree]:
    """The arguments of `forward_of` as shapes and dtypes: trained parameters, all other variables and a batch."""
    params = variables["params"]
    optimizer = experiment.optimizer.tuning(experiment.model)
    others = variables | {"params": pick(params, optimizer.frozen)}
    _, batch = costliest_batch(dataclasses.replace(experiment, batch_size=batch_size), variables)
    return pick(params, optimizer.trained), others, batch


def _parameters(experiment: Experiment, params: PyTree) -> dict[str, dict[str, int]]:
    counts: dict[str, dict[str, int]] = {}
    optimizer = experiment.optimizer.tuning(experiment.model)
    stored = {*stored_parts(flat_paths(params)).values()}
    for path, size in parameter_sizes(params).items():
        part = counts.setdefault(component(tuple(path.split("/")[:-1])), {"trainable": 0, "frozen": 0})
        part["frozen" if path in stored or optimizer.frozen(path) else "trainable"] += size
    return counts


def _flops(experiment: Experiment, arguments: tuple[PyTree, PyTree, PyTree]) -> dict[str, int]:
    flops_by_component: collections.Counter[str] = collections.Counter()
    model = type(experiment.model).__name__
    for scope, flops in by_scope(forward_of(experiment), *arguments).items():
        flops_by_component[component(scope[1:] if scope[:1] == (model,) else scope)] += flops
    return dict(flops_by_component)


def _flops_done(experiment: Experiment, arguments: tuple[PyTree, PyTree, PyTree]) -> int:
    gradient = jax.grad(forward_of(experiment))
    return count(prune_function(gradient) if arguments[1]["params"] else gradient, *arguments)


def _kept_bytes(experiment: Experiment, variables: PyTree, platform: str) -> int:
    """Bytes kept for one example: the difference of two microbatches and of one, so that weights do not count."""
    examples = experiment.batch_size // experiment.microbatches
    with backend.target_platform(platform):
        one, two = (_kept_of(experiment, variables, size) for size in (examples, 2 * examples))
    return (two - one) // examples


def _kept_of(experiment: Experiment, variables: PyTree, batch_size: int) -> int:
    """Bytes that the backward pass of a batch keeps on the devices."""
    forward = forward_of(experiment)

    def backward(params: PyTree, others: PyTree, batch: Batch) -> list[jax.Array]:
        kept = jax.tree.leaves(jax.vjp(lambda params: forward(params, others, batch), params)[1])
        arrays = [x for x in kept if hasattr(x, "dtype")]
        return [x for x in arrays if jax.typeof(x).memory_space != jax.memory.Space.Host]

    kept = jax.eval_shape(backward, *_arguments(experiment, variables, batch_size))
    return sum(math.prod(x.shape) * x.dtype.itemsize for x in kept)
