"""A class and a box for every token."""

import dataclasses
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from txjax.errors import UserError
from txjax.nn.heads.head import Encoded, Head, HeadContext, class_count
from txjax.nn.layers.three_layers import ThreeLayers
from txjax.types import config_field


class ObjectPredictions(NamedTuple):
    """What is predicted from the tokens after each layer, the model's last.

    Attributes:
      logits: float32 [layers B Q classes+1]; the last class is that there is no object.
      boxes: float32 [layers B Q 4], row and column of the centre, height, width, as fractions of the image without its
        padding.
      attributes: float32 [layers B Q A]; the logits of an attribute of the object. If None, none is predicted.
    """

    logits: Float[Array, "layers B Q classes"]
    boxes: Float[Array, "layers B Q 4"]
    attributes: Float[Array, "layers B Q A"] | None = None


@dataclasses.dataclass
class ObjectBoxes(Head):
    """A class or none, and a box, for every token (Carion et al. 2020, 3.2), from each of `Encoded.stages` too.

    Parameters: `head` [D classes+1], `box` (`ThreeLayers` of D, to 4).

    Attributes:
      classes: number of classes, without the one that there is no object. If None, the training data's.
    """

    classes: int | None = config_field(None, at_least=1)

    def __call__(self, encoded: Encoded, context: HeadContext) -> ObjectPredictions:
        """The predictions of all layers with one set of parameters.

        Raises:
          UserError: the layers have other numbers of tokens, or widths.
        """
        sizes = [stage.features.shape[1:] for stage in (*encoded.stages, encoded)]
        if len(set(sizes)) > 1:
            expected = f"features of one size at all stages, for ObjectBoxes, of {type(context.module).__name__}"
            got = ", ".join("x".join(map(str, size)) for size in sizes)
            raise UserError("config.model", expected, got, hint="DETR(backbone=...) predicts boxes from such a model")
        # [B layers Q D]: rows of a product are sharded where the batch is the first of their axes.
        x = jnp.stack([*(stage.features for stage in encoded.stages), encoded.features], axis=1)
        return jax.tree.map(lambda x: x.swapaxes(0, 1), self.predictions(x, context))

    def predictions(self, x: Float[Array, "B layers Q D"], context: HeadContext) -> ObjectPredictions:
        """The predictions, [B layers Q ...], of all layers' features."""
        logits = context.linear("head", class_count(self.classes) + 1, "classes")(x, jnp.float32)
        box = ThreeLayers(
            x.shape[-1], 4, "coordinates", kernel_init=context.kernel_init, name="box", parent=context.module
        )
        boxes = box(x, jnp.float32)
        return ObjectPredictions(logits, jax.nn.sigmoid(boxes))
