"""The usage of a codebook, counted by hand, and the warning where it has collapsed."""

import logging
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from txjax.eval import CodebookUsage
from txjax.eval.images.codebook_usage import perplexity_of
from txjax.experiment import Experiment
from txjax.objectives import Classification, VQReconstruction
from txjax.train.check import check
from txjax.types import UserError

from helpers.evaluations import IMAGES, LABELS, Net, Pictures, measure

pytestmark = pytest.mark.claim(
    "Evaluation",
    "images of classes are what decoding gives, in the picture and to the classifier; a codebook that has collapsed "
    "is a warning",
)


class Rounded:
    """A tokenizer whose tokens are the first pixels of each row, rounded, times `scale`."""

    codes = 12

    def apply(self, variables: Any, image: jax.Array, method: str) -> jax.Array:
        assert method == "encode"
        tokens = jnp.clip(jnp.round(2 * image[:, :, :2, 0]) + 4, 0, 8).astype(jnp.int32)
        return tokens * variables["params"]["scale"].astype(jnp.int32)


def test_codes_of_all_images_are_counted(caplog) -> None:
    real = IMAGES[LABELS >= 0][:, :, :2, 0]
    counts = np.bincount(np.clip(np.round(2 * real) + 4, 0, 8).astype(int).ravel(), minlength=12)
    shares = counts[counts > 0] / counts.sum()
    with caplog.at_level(logging.WARNING, "txjax"):
        found = measure(Rounded(), VQReconstruction(), CodebookUsage(data=Pictures()))
    assert found["used"] == pytest.approx((counts > 0).mean()) and found["used"] < 1
    assert found["perplexity"] == pytest.approx(np.prod(shares**-shares))
    assert not caplog.records


def test_a_codebook_that_has_collapsed_is_a_warning(caplog) -> None:
    nothing = {"params": {"scale": jnp.zeros(())}}
    with caplog.at_level(logging.WARNING, "txjax"):
        found = measure(Rounded(), VQReconstruction(), CodebookUsage(data=Pictures()), nothing)
    assert found == {"used": pytest.approx(1 / 12), "perplexity": pytest.approx(1.0)}
    assert "evals.x: the codebook has collapsed at step 7: 1 of 12 codes are used, perplexity 1.0" in caplog.text


def test_perplexity_of_counts() -> None:
    assert perplexity_of(np.array([2.0, 2.0, 0.0, 2.0])) == pytest.approx(3)
    assert perplexity_of(np.zeros(3)) == 0


def test_a_run_without_a_codebook_is_refused() -> None:
    evals = {"x": CodebookUsage(data=Pictures())}
    with pytest.raises(UserError, match=r"config.evals.x: expected a run whose objective is VQReconstruction"):
        check(Experiment(model=Net(), objective=Classification(), data=Pictures(), evals=evals, batch_size=16))
