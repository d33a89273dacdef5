"""Masked image modelling: predict the pixels of masked patches."""

import dataclasses
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from txjax.errors import UserError
from txjax.nn import patchify
from txjax.objectives.base import Objective, apply_model, example_keys
from txjax.objectives.patch_masks import PatchMask, RandomMask
from txjax.types import Batch, Mean, ObjectiveOutput, PyTree, config_field


def normalise_patches(patches: Float[Array, "B N P"]) -> Float[Array, "B N P"]:
    """Each patch less its mean, over its standard deviation (He et al. 2022, 4.1)."""
    patches = patches - patches.mean(-1, keepdims=True)
    return patches * jax.lax.rsqrt(jnp.square(patches).mean(-1, keepdims=True) + 1e-6)


TARGETS = {"normalised": normalise_patches, "pixels": lambda patches: patches}


@dataclasses.dataclass
class MaskedPatch(Objective):
    """The loss of the masked autoencoder (He et al. 2022): squared error a masked patch, averaged over its pixels.

    round(rate * N) patches of each example are masked; the model is called with the image and `keep`, the indices of
    the others. The model's field `patch` is the side of a patch.

    Attributes:
      rate: fraction of the patches that are masked.
      mask: how they are chosen: `RandomMask`, `BlockMask`, `GridMask`.
      target: "normalised" by each patch's own mean and deviation, or the "pixels" as they are.
      scored: the error is that of the "masked" patches, or of "all".
    """

    rate: float = config_field(0.75, above=0, below=1)
    mask: PatchMask = config_field(factory=RandomMask)
    target: str = config_field("normalised", choices=tuple(TARGETS))
    scored: str = config_field("masked", choices=("masked", "all"))

    arguments: ClassVar[tuple[str, ...]] = ("keep",)
    members: ClassVar[tuple[str, ...]] = ("patch",)
    models: ClassVar[str] = "MAE"
    required_keys: ClassVar[tuple[str, ...]] = ("id", "image", "weights")

    def check_output(self, model: Any, output: Any, batch: Batch) -> None:
        patches = jax.eval_shape(lambda image: patchify(image, model.patch), batch["image"])
        if getattr(output, "shape", None) != patches.shape:
            expected = f"a model that returns the pixels of all patches, {list(patches.shape[1:])}, for MaskedPatch"
            raise UserError("config.model", expected, type(model).__name__, hint="MAE decodes those of a ViT")

    def keep(self, key: jax.Array, batch: Batch, rows: int, columns: int) -> Int[Array, "B M"]:
        """The indices of each example's visible patches of rows x columns, in increasing order."""
        patches = rows * columns
        count = patches - round(self.rate * patches)
        if not 0 < count < patches:
            raise UserError("config.objective.rate", f"a rate that hides some, not all of {patches} patches", self.rate)
        order = jax.vmap(lambda k: self.mask(k, rows, columns))(example_keys(key, batch))
        return jnp.sort(order[:, :count], axis=-1).astype(jnp.int32)

    def __call__(self, model: Any, variables: PyTree, batch: Batch, key: jax.Array, train: bool) -> ObjectiveOutput:
        target = TARGETS[self.target](patchify(batch["image"].astype(jnp.float32), model.patch))
        keep = self.keep(key, batch, *(side // model.patch for side in batch["image"].shape[1:3]))
        painted, aux = apply_model(model, variables, self.inputs(model, batch) | {"keep": keep}, batch, key, train)
        self.check_output(model, painted, batch)
        hidden = jnp.ones(target.shape[:2]).at[jnp.arange(len(keep))[:, None], keep].set(0.0)
        error = jnp.square(painted.astype(jnp.float32) - target).mean(-1)
        if self.scored == "all":
            hidden = jnp.ones_like(hidden)
        loss = Mean.of(error, hidden * batch["weights"][:, None])
        return aux.outcome({"masked_patch": loss}, {})
