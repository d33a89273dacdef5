"""Images reconstructed by a masked autoencoder, as a picture."""

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from txjax.data import Dataset
from txjax.eval.evaluator import Context, Evaluate, Evaluator
from txjax.eval.pictures import grid
from txjax.nn import patchify, unpatchify
from txjax.objectives import MaskedPatch, Objective
from txjax.types import Batch, PyTree, UserError, config_field

GREY = 0.5  # the value of a hidden patch


@dataclasses.dataclass
class Reconstructions(Evaluator):
    """The first images of a set: masked, reconstructed and original, in `pictures/NAME/STEP.png` and in the report.

    The same patches are hidden at every step. Visible patches are shown unchanged. For a model trained on normalized
    patches, hidden ones are shown with the mean and the standard deviation of the true patch (as in figure 2 of He et
    al. 2022).

    Scores: none.

    Attributes:
      count: the number of images.
    """

    count: int = config_field(8, at_least=1)

    def check(self, model: Any, objective: Objective, train: Dataset) -> None:
        if not isinstance(objective, MaskedPatch):
            raise UserError("eval", "a run whose objective is MaskedPatch", type(objective).__name__)
        channels = self.data.spec()["image"].shape[-1]
        if channels not in (1, 3):
            raise UserError("eval.data", "images of 1 or 3 channels", channels)
        if not (hasattr(self.data, "mean") and hasattr(self.data, "std")):
            raise UserError("eval.data", "images with `mean` and `std`", type(self.data).__name__)

    def start(self, context: Context) -> Evaluate:
        model = context.model
        objective = context.objective
        assert isinstance(objective, MaskedPatch)
        mean, deviation = (np.asarray(getattr(self.data, name), np.float32) for name in ("mean", "std"))

        def paint(variables: PyTree, batch: Batch) -> PyTree:
            image = batch["image"]
            patches = patchify(image, model.patch)
            keep = objective.keep(
                jax.random.key(context.seed), batch, *(side // model.patch for side in image.shape[1:3])
            )
            painted = model.apply(variables, **objective.inputs(batch), keep=keep, train=False)
            if objective.target == "normalised":
                painted = unnormalised(painted, patches)
            seen = jnp.zeros(patches.shape[:2]).at[jnp.arange(len(keep))[:, None], keep].set(1.0)[:, :, None] > 0
            shown = jnp.where(seen, patches, painted)
            whole = (jnp.broadcast_to(seen, patches.shape).astype(jnp.float32), shown, patches)
            return tuple(unpatchify(x, model.patch, *image.shape[1:3]) for x in whole)

        program = context.program(paint)
        batches = -(-self.count // context.batch_size)

        def evaluate(variables: PyTree, step: int) -> dict[str, float]:
            found = list(context.over(program, variables, context.source, batches))
            count = min(self.count, len(context.source))
            seen, painted, original = (np.concatenate(column)[:count] for column in zip(*found, strict=True))
            painted, original = (x * deviation + mean for x in (painted, original))
            masked = np.where(seen > 0, original, np.float32(GREY))
            picture = grid({"masked": masked, "reconstructed": painted, "original": original})
            context.write("pictures", step, "png", picture)
            return {}

        return evaluate


def unnormalised(painted: Float[Array, "B N P"], patches: Float[Array, "B N P"]) -> Float[Array, "B N P"]:
    """Restores the mean and deviation of `patches`: the inverse of `objectives.masked_patch.normalised`."""
    mean = patches.mean(-1, keepdims=True)
    return painted * jnp.sqrt(jnp.square(patches - mean).mean(-1, keepdims=True) + 1e-6) + mean
