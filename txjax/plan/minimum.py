"""The least that a step's sharding makes a device send, from the layout alone.

Every array goes around a ring: of an array of S bytes over n devices, gathering it, or adding up its parts into n
shares, sends S (n - 1) / n bytes a device, adding it up on every device twice that.
"""

import math

import jax.numpy as jnp

from txjax.experiment import Experiment
from txjax.train.state import Layout
from txjax.types import flat_paths


def least(experiment: Experiment, layout: Layout) -> dict[str, int]:
    """Bytes that one device sends in one step, by what for.

    A kernel that is split along with the batch (FSDP) is gathered for the forward and again for the backward pass of
    every microbatch, in the dtype of the activations, and its gradient is added up once into shares, in that dtype too.
    Copies of the model (data parallelism) add up their gradients once a step, in the dtype that the products give them.
    Where heads and hidden layers are split (tensor parallelism) every block adds up its two branches' outputs, and
    their inputs' gradients. Sequences and experts are not in it.
    """
    mesh, sizes = experiment.mesh, dict(layout.batch.mesh.shape)
    of_batch = set(mesh.table()["batch"])
    width = jnp.dtype(getattr(experiment.model, "dtype", "float32")).itemsize
    trained = flat_paths(layout.abstract.params)
    gathered = shared = summed = 0.0
    for path, x in (*trained.items(), *flat_paths(layout.abstract.frozen).items()):
        axes = [a for entry in x.sharding.spec for a in ((entry,) if isinstance(entry, str) else entry or ())]
        along = math.prod(sizes[a] for a in axes if a in of_batch)
        apart = math.prod(sizes[a] for a in axes if a not in of_batch)
        whole = math.prod(x.shape) / apart
        size = whole * width
        gathered += 2 * experiment.microbatches * size * (along - 1) / along
        if path in trained:
            shared += experiment.microbatches * size * (along - 1) / along
            copies = math.prod(sizes[a] for a in of_batch if a not in axes)
            summed += 2 * size / along * (copies - 1) / copies
    return {
        "gather parameters": round(gathered),
        "add up gradients into shares": round(shared),
        "add up gradients of copies": round(summed),
        "add up branches": round(_branches(experiment, sizes, width)),
    }


def _branches(experiment: Experiment, sizes: dict[str, int], width: int) -> float:
    """What tensor parallelism sends: two sums of the stream forward, two backward, in every block."""
    mesh, model = experiment.mesh, experiment.model
    ways = math.prod(sizes[axis] for axis in mesh.table()["mlp"])
    positions = _positions(experiment)
    if ways == 1 or not hasattr(model, "depth"):
        return 0.0
    stream = positions / mesh.parts("batch", math.prod(sizes.values())) * model.width * width
    return 4 * model.depth * 2 * stream * (ways - 1) / ways


def _positions(experiment: Experiment) -> int:
    """Places of the residual stream in one batch."""
    spec = experiment.data.spec()
    if "tokens" in spec:
        return experiment.batch_size * spec["tokens"].shape[0]
    height, width = spec["image"].shape[:2]
    return experiment.batch_size * (height // experiment.model.patch) * (width // experiment.model.patch)
