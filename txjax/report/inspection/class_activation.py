"""Which places of an image a classifier's logit comes from."""

import dataclasses
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from txjax.errors import UserError
from txjax.nn import Classes, Encoded, FirstToken, Grid, Head, HeadContext, MeanPrefix, MeanTokens, NormedPool, Pool
from txjax.nn.stack.captures import LAYER_INPUTS, layer_inputs
from txjax.types import PyTree, flat_paths


class ClassActivation(NamedTuple):
    """Maps of one class for each image.

    Attributes:
      logits: of all classes.
      maps: of the class's evidence at each place of the features' grid.
    """

    logits: Float[Array, "B classes"]
    maps: Float[Array, "B rows columns"]


@dataclasses.dataclass
class _Added(Head):
    """The output of `head` for the features + `added`, and the features and their grid."""

    head: Head
    added: jax.Array | float

    def __call__(self, encoded: Encoded, context: HeadContext) -> tuple[Any, Encoded]:
        features = encoded.features + jnp.asarray(self.added, encoded.features.dtype)
        return self.head(dataclasses.replace(encoded, features=features), context), encoded


def method_of(model: Any) -> str:
    """How `class_activation` finds the maps: "CAM", or "Grad-CAM" before the head or "before the last layer".

    Raises:
      UserError: the model's output is no logit of a class for each image.
    """
    head = getattr(model, "head", None)
    has_head = any(field.name == "head" for field in dataclasses.fields(model))
    if not isinstance(head, Classes) or not has_head:
        got = type(model).__name__ if head is None else type(head).__name__
        raise UserError("config.model.head", "Classes(...) of images, for class activation", got)
    if isinstance(head.pool, MeanTokens):
        return "CAM"
    return "Grad-CAM before the last layer" if _reads_prefix(head.pool) else "Grad-CAM"


def _reads_prefix(pool: Pool) -> bool:
    """Whether features of patches reach a pool's output only by earlier layers."""
    return isinstance(pool, FirstToken | MeanPrefix) or (isinstance(pool, NormedPool) and _reads_prefix(pool.pool))


def class_activation(
    model: Any, variables: PyTree, inputs: dict[str, Any], classes: Int[Array, "B"] | None = None
) -> ClassActivation:
    """The evidence for a class at each place of the last features' grid.

    For a head that is the mean over the places and a linear layer, the class activation map (Zhou et al. 2016,
    equation 2): the class's logit of each place without the bias, whose mean over the places is the logit less the
    bias. For other heads Grad-CAM (Selvaraju et al. 2017, equations 1 and 2): the features weighted by the logit's
    gradient with respect to them, in the mean over the places, and positive parts alone. A head that reads a class
    token has no gradient at the other places of the last features, so there the features are the last layer's input.

    Args:
      inputs: the model's arguments.
      classes: one class for each image. If None, the predicted ones.

    Raises:
      UserError: the output is no logits of classes (`method_of`), or the features have no grid.
    """
    method = method_of(model)
    before_layer = method.endswith("layer")
    variables = {name: value for name, value in variables.items() if name != "intermediates"}

    def call(added: Any, streams: PyTree, **how: Any) -> Any:
        more = {LAYER_INPUTS: streams} if streams else {}
        probed = model.clone(head=_Added(model.head, added))
        return probed.apply({**variables, **more}, **inputs, train=False, **how)

    def logit(added: Any, streams: PyTree) -> tuple[jax.Array, Any]:
        (logits, encoded), state = call(added, streams, mutable=["intermediates"])
        chosen = logits.argmax(-1) if classes is None else classes
        picked = jnp.take_along_axis(logits, chosen[:, None], 1).sum()
        return picked, (logits, encoded, _last_layer(state["intermediates"], encoded) if before_layer else None)

    shape = jax.eval_shape(lambda: call(0.0, {}))[1]
    if shape.grid is None:
        raise UserError("config.model", "a model with a grid of features, for class activation", type(model).__name__)
    if not before_layer:
        zeros = jnp.zeros(shape.features.shape, jnp.float32)
        gradient, (logits, encoded, _) = jax.grad(logit, has_aux=True)(zeros, {})
        features = encoded.features
    else:
        with layer_inputs():
            _, shapes = jax.eval_shape(lambda: call(0.0, {}, mutable=[LAYER_INPUTS]))
            streams = jax.tree.map(lambda x: jnp.zeros(x.shape, x.dtype), shapes[LAYER_INPUTS])
            gradients, (logits, encoded, features) = jax.grad(logit, 1, has_aux=True)(0.0, streams)
        gradient = _last_layer(gradients, encoded)
    return ClassActivation(logits, _over_grid(method, features, gradient, shape.grid))


def _over_grid(
    method: str, features: Float[Array, "B L D"], gradient: Float[Array, "B L D"], grid: Grid
) -> Float[Array, "B rows columns"]:
    """The maps, from the features and the logit's gradient with respect to them."""
    features, gradient = (x[:, grid.prefix :].astype(jnp.float32) for x in (features, gradient))
    if method == "CAM":  # the gradient is the same everywhere: the class's kernel / places
        maps = (features * gradient).sum(-1) * features.shape[1]
    else:
        maps = jax.nn.relu(jnp.einsum("bld,bd->bl", features, gradient.mean(1)))
    return maps.reshape(-1, grid.rows, grid.columns)


def _last_layer(tree: PyTree, encoded: Encoded) -> jax.Array:
    """The last layer's array [B L D], in a collection of the layers, of the shape of the features."""
    shape = encoded.features.shape
    streams = [x for x in flat_paths(tree).values() if x.shape[1:] == shape]
    if not streams:
        raise UserError("config.model", "layers over the features' grid, for Grad-CAM at a class token", "none")
    return streams[-1][-1]
