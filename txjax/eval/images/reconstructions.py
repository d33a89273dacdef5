"""Images reconstructed by an autoencoder, masked or quantised, as a picture."""

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from txjax.data import Dataset
from txjax.errors import UserError
from txjax.eval.evaluator import Context, Evaluate, Evaluator, Program
from txjax.eval.pictures import check_images, grid, pixels
from txjax.nn import patchify, unpatchify
from txjax.objectives import MaskedPatch, Objective, VQReconstruction
from txjax.types import Batch, PyTree, config_field

GREY = 0.5  # the value of a hidden patch


@dataclasses.dataclass
class Reconstructions(Evaluator):
    """The first images of a set, reconstructed and original, in `pictures/NAME/STEP.png` and in the report.

    For a quantised autoencoder they are decoded from its codes. For a masked autoencoder there is a row of the masked
    images, too; the same patches are hidden at every step, and visible ones are shown unchanged. If it is trained on
    normalized patches, hidden ones are shown with the mean and the standard deviation of the true patch (as in figure 2
    of He et al. 2022).

    Scores: none.

    Attributes:
      count: the number of images.
    """

    count: int = config_field(8, at_least=1)

    def check(self, model: Any, objective: Objective, train: Dataset) -> None:
        if not isinstance(objective, MaskedPatch | VQReconstruction):
            expected = "a run whose objective is MaskedPatch or VQReconstruction"
            raise UserError("eval", expected, type(objective).__name__)
        check_images(self.data)

    def start(self, context: Context) -> Evaluate:
        reconstruct = predict_masked if isinstance(context.objective, MaskedPatch) else decode_images
        program = context.program(reconstruct(context))
        batches = -(-self.count // context.batch_size)

        def evaluate(variables: PyTree, step: int) -> dict[str, float]:
            painted_batches = list(context.run_batches(program, variables, context.source, batches))
            count = min(self.count, len(context.source))
            *visible, painted, original = (
                np.concatenate(column)[:count] for column in zip(*painted_batches, strict=True)
            )
            painted, original = (pixels(self.data, x) for x in (painted, original))
            rows = {"masked": np.where(visible[0] > 0, original, np.float32(GREY))} if visible else {}
            picture = grid({**rows, "reconstructed": painted, "original": original})
            context.write("pictures", step, "png", picture)
            return {}

        return evaluate


def decode_images(context: Context) -> Program:
    """Images from their codes, and the images."""

    def paint(variables: PyTree, batch: Batch) -> PyTree:
        return context.model.apply(variables, batch["image"], train=False).image, batch["image"]

    return paint


def predict_masked(context: Context) -> Program:
    """Which pixels a masked autoencoder sees, the images with the others as it predicts them, and the images."""
    model = context.model
    objective = context.objective
    assert isinstance(objective, MaskedPatch)

    def paint(variables: PyTree, batch: Batch) -> PyTree:
        image = batch["image"]
        patches = patchify(image, model.patch)
        keep = objective.keep(jax.random.key(context.seed), batch, *(side // model.patch for side in image.shape[1:3]))
        painted = model.apply(variables, **objective.inputs(model, batch), keep=keep, train=False)
        if objective.target == "normalised":
            painted = unnormalise(painted, patches)
        visible = jnp.zeros(patches.shape[:2]).at[jnp.arange(len(keep))[:, None], keep].set(1.0)[:, :, None] > 0
        shown = jnp.where(visible, patches, painted)
        whole = (jnp.broadcast_to(visible, patches.shape).astype(jnp.float32), shown, patches)
        return tuple(unpatchify(x, model.patch, *image.shape[1:3]) for x in whole)

    return paint


def unnormalise(painted: Float[Array, "B N P"], patches: Float[Array, "B N P"]) -> Float[Array, "B N P"]:
    """Restores the mean and deviation of `patches`: the inverse of `objectives.masked_patch.normalised`."""
    mean = patches.mean(-1, keepdims=True)
    return painted * jnp.sqrt(jnp.square(patches - mean).mean(-1, keepdims=True) + 1e-6) + mean
