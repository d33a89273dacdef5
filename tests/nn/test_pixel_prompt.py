"""Trained pixels at the border of images: by the formula, the model itself at first, one line where they don't fit."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from test_contracts import drawn, first_pair, fitted

from txjax.models.vision.conv_net.conv_net import ConvNet
from txjax.nn.adapters import LoRA, PixelPrompt
from txjax.types import UserError

from helpers.arrays import numbers, on_jax, shapes, variables

IMAGE = numbers(2, 6, 7, 3)
PLAIN = ConvNet(width=2, depth=1, stages=1)


def test_the_border_is_added_to_images() -> None:
    """The rows above and below, then the columns of the rows between; zeros leave the model as it is."""
    model = PLAIN.clone(adapter=PixelPrompt(width=2))
    made = variables(model, IMAGE)
    prompt = made["params"].pop("pixel_prompt")
    rows, columns = prompt["rows"], prompt["columns"]
    assert (rows.shape, columns.shape) == ((4, 7, 3), (2, 4, 3))
    border = np.zeros(IMAGE.shape[1:], np.float32)
    border[:2], border[-2:], border[2:-2, :2], border[2:-2, -2:] = rows[:2], rows[2:], columns[:, :2], columns[:, 2:]

    own, (image, changed_image) = on_jax(made), map(jnp.asarray, (IMAGE, IMAGE + border))

    def params(factor: float) -> Any:
        prompt = {"rows": factor * jnp.asarray(rows), "columns": factor * jnp.asarray(columns)}
        return {**own, "params": {**own["params"], "pixel_prompt": prompt}}

    @jax.jit
    def outputs() -> Any:
        changed, same = (model.apply(params(factor), image).features for factor in (1.0, 0.0))
        return changed, PLAIN.apply(own, changed_image).features, same, PLAIN.apply(own, image).features

    changed, wanted, same, plain = outputs()
    np.testing.assert_allclose(changed, wanted, atol=1e-6)
    np.testing.assert_array_equal(same, plain)
    assert np.abs(changed - plain).max() > 1e-3


@pytest.mark.parametrize(
    ("width", "words"),
    [(3, r"adapter\.width: expected less than half of the image's 6 x 7 pixels, got 3"), (1, "of another size")],
)
def test_images_that_it_does_not_fit(width: int, words: str) -> None:
    model = PLAIN.clone(adapter=PixelPrompt(width=width))
    with pytest.raises(UserError, match=words):
        made = shapes(model, IMAGE)
        jax.eval_shape(model.apply, made, jnp.zeros((1, 8, 8, 3)))


def test_a_task_without_images_has_none() -> None:
    """What one of several tasks calls can be adapted; what none calls is refused."""
    pair = first_pair("SharedTrunk")
    batch = fitted(pair.model, pair.objective, 1, 2, 3)
    for adapter in (PixelPrompt(width=1), LoRA(paths="patch_embed", rank=1)):
        drawn(pair.model.clone(adapter=adapter), pair.objective, batch)
    with pytest.raises(UserError, match=r"the path of a module, got 'patch_embad'; did you mean patch_embed\?"):
        drawn(pair.model.clone(adapter=LoRA(paths="patch_embad")), pair.objective, batch)
