"""How many codes of a codebook the images of a set use."""

import dataclasses
import logging
from typing import Any

import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from txjax.data import Dataset
from txjax.errors import UserError
from txjax.eval.evaluation import add
from txjax.eval.evaluator import Context, Evaluate, Evaluator
from txjax.objectives import Objective, VQReconstruction
from txjax.types import Batch, PyTree, config_field

log = logging.getLogger("txjax")


@dataclasses.dataclass
class CodebookUsage(Evaluator):
    """How many of its codes a `VQTokenizer` uses for a set of images; warns of a codebook that has collapsed.

    Scores: `used`, the share of the codes that any token is; `perplexity`, exp of the entropy of the tokens'
    distribution over the codes (van den Oord et al. 2017): as many equally frequent codes have the same.

    Attributes:
      collapse: a warning is logged if the perplexity is below this share of the codes.
    """

    collapse: float = config_field(0.1, at_least=0, at_most=1)

    def check(self, model: Any, objective: Objective, train: Dataset) -> None:
        if not isinstance(objective, VQReconstruction):
            raise UserError("eval", "a run whose objective is VQReconstruction", type(objective).__name__)

    def start(self, context: Context) -> Evaluate:
        model = context.model

        def count(variables: PyTree, batch: Batch) -> PyTree:
            tokens = model.apply(variables, batch["image"], method="encode")
            tokens = tokens.reshape(len(tokens), -1)
            weights = jnp.broadcast_to((batch["weights"] > 0)[:, None], tokens.shape)
            return jnp.zeros(model.codes, jnp.int32).at[tokens].add(weights.astype(jnp.int32))

        program = context.program(count)

        def evaluate(variables: PyTree, step: int) -> dict[str, float]:
            counts = add(context.run_batches(program, variables, context.source, self.max_batches))
            used = int((counts > 0).sum())
            perplexity = perplexity_of(counts)
            if perplexity < self.collapse * model.codes:
                message = "evals.%s: the codebook has collapsed at step %d: %d of %d codes are used, perplexity %.1f"
                log.warning(message, context.name, step, used, model.codes, perplexity)
            return {"used": used / model.codes, "perplexity": perplexity}

        return evaluate


def perplexity_of(counts: Float[np.ndarray, "..."]) -> float:
    """exp of the entropy of a distribution that is proportional to the counts; 0 if all are 0."""
    shares = counts[counts > 0] / max(counts.sum(), 1)
    return float(np.exp(-(shares * np.log(shares)).sum())) if len(shares) else 0.0
