"""Metrics that layers sow: the mean over all layers, or one of each layer by its number."""

import jax
import jax.numpy as jnp
import numpy as np

from txjax.models.cards import cards
from txjax.nn import Attention, Classes, MeanTokens, sow_aux
from txjax.objectives import Classification

from helpers.arrays import filled, numbers, shapes

B = 3


class Measured(Attention):
    """Attention that reports the mean of its inputs."""

    def inputs(self, x, context):
        if context.train:
            for kind, name in (("metrics", "mean"), ("layer_metrics", "mean_of")):
                sow_aux(self, kind, name, x.mean((1, 2))[:, None])
        return super().inputs(x, context)


def test_a_layer_metric_has_the_number_of_its_layer() -> None:
    (model,) = (example.model for card in cards().values() for example in card.examples if example.name == "ViT")
    model = model.clone(mixer=Measured(), depth=3, head=Classes(2, MeanTokens()))
    batch = {
        "id": jnp.arange(B),
        "image": jnp.asarray(numbers(B, 4, 4, 1)),
        "label": jnp.zeros(B, jnp.int32),
        "weights": jnp.asarray([1.0, 1.0, 0.0]),
    }
    variables = filled(shapes(model, batch["image"]))
    call = jax.jit(lambda v, b: Classification()(model, v, b, jax.random.key(0), True))
    metrics = call(variables, batch).metrics
    layers = [metrics[f"mean_of/layer_{i}"] for i in range(3)]
    assert "mean_of/layer_3" not in metrics and len({float(mean.total) for mean in layers}) == 3
    assert all(mean.count == 2 for mean in layers)
    np.testing.assert_allclose(metrics["mean"].total, sum(mean.total for mean in layers) / 3, rtol=1e-5)
