"""A class, a box and an attribute for every token."""

import dataclasses

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from txjax.nn.heads.head import HeadContext, class_count
from txjax.nn.heads.object_boxes import ObjectBoxes, ObjectPredictions
from txjax.nn.layers.embed import Embed
from txjax.types import config_field

EMBED_WIDTH = 256
HIDDEN = 512


@dataclasses.dataclass
class ObjectAttributes(ObjectBoxes):
    """`ObjectBoxes`, and an attribute, such as a color, of each object (Anderson et al. 2018, 3.1; UniT, 3.4).

    It is predicted from the features and a vector of the class that is predicted: a hidden layer of 512, relu, logits.

    Parameters: as of `ObjectBoxes`; `classes/embedding` [classes+1 256], `attribute_hidden` [D+256 512],
    `attribute` [512 attributes+1].

    Attributes:
      attributes: number of attributes, without the one that the authors' code has for none.
    """

    attributes: int = config_field(400, at_least=1)

    def predictions(self, x: Float[Array, "B layers Q D"], context: HeadContext) -> ObjectPredictions:
        predictions = super().predictions(x, context)
        embed = Embed(class_count(self.classes) + 1, EMBED_WIDTH, axis="classes", name="classes", parent=context.module)
        of_class = embed(predictions.logits.argmax(-1), x.dtype)
        hidden = context.linear("attribute_hidden", HIDDEN, "mlp")(jnp.concatenate([x, of_class], axis=-1))
        logits = context.linear("attribute", self.attributes + 1, "classes")(jax.nn.relu(hidden), jnp.float32)
        return predictions._replace(attributes=logits)
