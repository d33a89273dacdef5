"""The terms of a quantised autoencoder equal their formulas, and reach the right parameters."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from txjax.models.vision.vq_tokenizer import VQTokenizer
from txjax.nn import GroupNorm
from txjax.objectives import VQReconstruction
from txjax.types import UserError

from helpers.arrays import Echo, numbers, on_jax, variables

pytestmark = pytest.mark.claim(
    "Models and objectives",
    "MaskGIT's tokenizer equals its formulas in numpy; gradients pass straight through the codes",
)

MODEL = VQTokenizer(
    width=4, depth=1, multipliers=(1, 2), codes=5, code_size=3, channels=1, norm=GroupNorm(groups=2, eps=1e-6)
)
IMAGE = numbers(3, 4, 6, 1)
BATCH = on_jax({"id": np.arange(3, dtype=np.int32), "image": IMAGE, "weights": np.array([1, 1, 0], np.float32)})
KEY = jax.random.key(0)


@pytest.mark.parametrize(
    ("error", "measure"), [("squared", np.square), pytest.param("absolute", np.abs, marks=pytest.mark.slow)]
)
def test_terms_are_those_of_the_formulas(error: str, measure: Any) -> None:
    goal = VQReconstruction(error=error, codebook=2.0, commitment=0.5)
    drawn = jax.tree.map(jnp.asarray, variables(MODEL, IMAGE))

    @jax.jit
    def run(drawn: Any) -> Any:
        def term(params: Any, name: str) -> jax.Array:
            return goal(MODEL, {"params": params}, BATCH, KEY, True).losses[name].value

        names = ("reconstruction", "codebook", "commitment")
        gradients = {name: jax.grad(term)(drawn["params"], name) for name in names}
        return goal(MODEL, drawn, BATCH, KEY, True).losses, MODEL.apply(drawn, BATCH["image"]), gradients

    losses, seen, gradients = run(drawn)
    gap = 1.0 * np.square(np.asarray(seen.features) - seen.codes)[:2].mean()
    np.testing.assert_allclose(losses["reconstruction"].value, measure(seen.image - IMAGE)[:2].mean(), rtol=1e-5)
    np.testing.assert_allclose(losses["codebook"].value, 2 * gap, rtol=1e-5)
    np.testing.assert_allclose(losses["commitment"].value, gap / 2, rtol=1e-5)
    assert all(loss.count == 2 for loss in losses.values())
    trained = {
        name: {part for part, tree in of.items() if any(np.any(x) for x in jax.tree.leaves(tree))}
        for name, of in gradients.items()
    }
    wanted = {"reconstruction": {"encoder", "decoder"}, "codebook": {"codebook"}, "commitment": {"encoder"}}
    assert trained == wanted


def test_a_model_without_a_codebook_is_refused() -> None:
    with pytest.raises(UserError, match="config.model: expected a model with a codebook, such as VQTokenizer"):
        VQReconstruction()(Echo(IMAGE), {}, BATCH, KEY, False)
