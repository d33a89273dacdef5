"""Vector quantisation: images are reconstructed from codes that are learned with them."""

import dataclasses
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from txjax.errors import UserError
from txjax.nn import Quantised
from txjax.objectives.base import Objective, apply_model
from txjax.types import Batch, Mean, ObjectiveOutput, PyTree, config_field

ERRORS = {"squared": jnp.square, "absolute": jnp.abs}


@dataclasses.dataclass
class VQReconstruction(Objective):
    """The loss of a quantised autoencoder (van den Oord et al. 2017, equation 3), for `VQTokenizer`.

    With the encoder's features z, their nearest codes e, and sg without a gradient:

        reconstruction   the error of the decoded image
        codebook         codebook * |sg(z) - e|^2, which brings the codes to the features
        commitment       commitment * |z - sg(e)|^2, which keeps the features at their codes

    All are means over an image's pixels and channels, or features and channels, not sums. VQGAN's further terms are not
    here: a perceptual and an adversarial one, whose networks txjax doesn't have, and MaskGIT's entropy of the mean
    choice of codes, which is a mean over the batch and not over its examples. `eval.CodebookUsage` reports how many
    codes are in use.

    Attributes:
      error: of a pixel: "squared", or "absolute" as in VQGAN (Esser et al. 2021).
      codebook, commitment: the weights of the terms; beta in the paper is `commitment`.
    """

    error: str = config_field("squared", choices=tuple(ERRORS))
    codebook: float = config_field(1.0, at_least=0, traced=True)
    commitment: float = config_field(0.25, at_least=0, traced=True)

    models: ClassVar[str] = "VQTokenizer"
    required_keys: ClassVar[tuple[str, ...]] = ("id", "image", "weights")

    def check_output(self, model: Any, output: Any, batch: Batch) -> None:
        if not isinstance(output, Quantised):
            expected = "a model with a codebook, such as VQTokenizer, for VQReconstruction"
            raise UserError("config.model", expected, type(model).__name__)

    def __call__(self, model: Any, variables: PyTree, batch: Batch, key: jax.Array, train: bool) -> ObjectiveOutput:
        output, aux = apply_model(model, variables, self.inputs(model, batch), batch, key, train)
        self.check_output(model, output, batch)
        still = jax.lax.stop_gradient
        terms = {
            "reconstruction": ERRORS[self.error](output.image - batch["image"].astype(jnp.float32)),
            "codebook": self.codebook * jnp.square(still(output.features) - output.codes),
            "commitment": self.commitment * jnp.square(output.features - still(output.codes)),
        }
        return aux.outcome({name: Mean.of(each_mean(x), batch["weights"]) for name, x in terms.items()}, {})


def each_mean(x: Float[Array, "B ..."]) -> Float[Array, "B"]:
    """The mean of each example's numbers."""
    return x.reshape(len(x), -1).mean(1)
