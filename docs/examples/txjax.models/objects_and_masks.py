"""Objects in images.

Boxes by DETR, masks at a click by SAM.
"""

import jax
import jax.numpy as jnp

from txjax.models import Stage
from txjax.models.vision.detr import DETR
from txjax.models.vision.res_net import ResNet
from txjax.models.vision.sam import SAM
from txjax.models.vision.vit import ViT
from txjax.nn import ObjectBoxes

key, image = jax.random.key(0), jnp.zeros([1, 64, 64, 3])

backbone = ResNet(stages=(Stage(32, 1), Stage(64, 1)))
detr = DETR(backbone=backbone, queries=20, width=32, depth=2, heads=4, head=ObjectBoxes(classes=5))
predictions, _ = jax.eval_shape(detr.init_with_output, key, image)
print(predictions.logits.shape, predictions.boxes.shape)
# (2, 1, 20, 6) (2, 1, 20, 4)

sam = SAM(encoder=ViT(patch=8, width=32, depth=2, heads=4, class_token=None), width=32, depth=2, heads=4)
points, labels = jnp.array([[[[0.5, 0.5]]]]), jnp.array([[[1]]])  # one object, a click in the middle
(masks, ious), _ = jax.eval_shape(sam.init_with_output, key, image, points, labels)
print(masks.shape, ious.shape)  # (1, 1, 4, 32, 32) (1, 1, 4)
