"""Sets of objects.

The loss of DETR matches each object with one prediction.
"""

import jax.numpy as jnp

from txjax.nn import ObjectPredictions
from txjax.objectives import SetPrediction
from txjax.objectives.set_prediction import Objects

# Two objects and a row of padding; boxes are row and column of the centre, height and width.
objects = Objects(
    labels=jnp.array([[0, 1, 0]]),
    boxes=jnp.array([[[0.3, 0.3, 0.2, 0.2], [0.7, 0.7, 0.2, 0.4], [0.0, 0.0, 0.0, 0.0]]]),
    is_object=jnp.array([[True, True, False]]),
)
# Four predictions of one layer, of two classes and "no object".
predictions = ObjectPredictions(
    logits=jnp.array([[[[0.0, 0, 9], [0, 3, 0], [3, 0, 0], [0, 0, 9]]]]),
    boxes=jnp.array([[[[0.5, 0.5, 1.0, 1.0], [0.7, 0.6, 0.2, 0.4], [0.3, 0.3, 0.2, 0.3], [0.5, 0.5, 0.1, 0.1]]]]),
)
objective = SetPrediction(box=5.0, giou=2.0)
print(objective.match(predictions, objects)[0, 0, :2])  # [2 1]
losses, metrics = objective.compare(predictions, objects, weights=jnp.ones(1))
print({name: round(float(mean.value), 3) for name, mean in (losses | metrics).items()})
# {'class': 0.086, 'box': 0.5, 'giou': 0.733, 'class_accuracy': 1.0, 'iou': 0.633}
