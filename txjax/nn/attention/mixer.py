"""The bases of what mixes the positions of a sequence in a layer: of any mixer, of images, of several heads."""

from collections.abc import Callable
from typing import Any, ClassVar

import flax.linen as nn
import jax.numpy as jnp
from jaxtyping import Array, Float

from txjax.errors import UserError, near_misses
from txjax.nn.attention.layer_context import LayerContext
from txjax.nn.layers.linear import Linear, scale
from txjax.nn.layers.norms import Norm
from txjax.nn.parameters.init import KernelInit
from txjax.nn.parameters.remat import checkpoint_name
from txjax.nn.positions.positions import Rotation, padded_image
from txjax.parametrization import head_size
from txjax.types import config_field

PROJECTIONS = ("query", "key", "value", "out")
MAPS = "attention_maps"  # the collection of the attention weights, which `nn.stack.captures` fills


def rotate(x: Float[Array, "B L H K"], rotation: Rotation | None) -> Float[Array, "B L H K"]:
    """Rotates channels i and i + K/2 by the angles of `rotation`, in float32."""
    if rotation is None:
        return x
    cos, sin = (part[:, :, None, :] for part in rotation)
    a, b = jnp.split(x.astype(jnp.float32), 2, axis=-1)
    return jnp.concatenate([a * cos - b * sin, b * cos + a * sin], -1).astype(x.dtype)


class Mixer(nn.Module):
    """Base of a block's first branch, in which the positions of a sequence exchange information.

    Attributes:
      heads, kv_heads: set by the model; a mixer without heads ignores them.
      kernel_init: set by the model.
      takes_prompts: whether an adapter's tokens may be among those of the sequence.
      branch_name: what a block calls it in its parameters: `attention` if it is attention, else `mixer`.
    """

    takes_prompts: ClassVar[bool] = False
    branch_name: ClassVar[str] = "mixer"

    heads: int | None = None
    kv_heads: int | None = None
    kernel_init: KernelInit | None = None

    def __post_init__(self) -> None:
        if self.name == "mixer":  # the name of a block's field, which Flax gives to the module in it
            object.__setattr__(self, "name", self.branch_name)
        super().__post_init__()

    def __call__(self, x: Float[Array, "B L D"], context: LayerContext) -> Float[Array, "B L D"]:
        """The branch's output, of the shape and dtype of x."""
        raise NotImplementedError


class GridMixer(Mixer):
    """Base of mixers that see the tokens as an image."""

    @nn.nowrap
    def mix(self, image: Float[Array, "B R C D"], context: LayerContext) -> Float[Array, "B R C D"]:
        """The mixed image, of the same shape and dtype."""
        raise NotImplementedError

    @nn.compact
    def __call__(self, x: Float[Array, "B L D"], context: LayerContext) -> Float[Array, "B L D"]:
        """The branch's output. Raises UserError if the tokens are not all patches of a grid."""
        if context.grid is None:
            hint = "the model's tokens are no patches of a grid"
            raise UserError("config.model.mixer", "a mixer of sequences", f"{type(self).__name__}()", hint=hint)
        return self.mix(padded_image(x, context.grid, 1), context).reshape(x.shape)


class MultiHead(Mixer):
    """Base of mixers that project tokens to queries, keys and values of several heads, and the heads back to tokens.

    Parameters: `query` [D H K], `key` and `value` [D G K], `out` [H K D], with a bias where `biases` names it;
    `norm_query` and `norm_key` [K] with `qk_norm`.

    Attributes:
      head_size: If None, width / heads.
      use_bias: whether the projections in `biases` have biases.
      biases: some of `query`, `key`, `value` and `out`; Qwen2's are `("query", "key", "value")`.
      qk_norm: the template of the norms of each head's queries and keys, before they are rotated (Henry et al. 2020,
        Dehghani et al. 2023; Qwen3's is `RMSNorm()`). If None, there are none.
    """

    branch_name: ClassVar[str] = "attention"

    head_size: int | None = config_field(None, at_least=1)
    use_bias: bool = True
    biases: tuple[str, ...] = PROJECTIONS
    qk_norm: Norm | None = None

    def has_bias(self, projection: str) -> bool:
        """Whether one of `PROJECTIONS` has a bias. Raises UserError if `biases` names anything else."""
        for name in self.biases:
            if name not in PROJECTIONS:
                expected = "some of " + ", ".join(PROJECTIONS)
                raise UserError("config.model.mixer.biases", expected, name, near_misses(name, PROJECTIONS))
        return self.use_bias and projection in self.biases

    @nn.nowrap
    def query_factors(self, size: int) -> tuple[float, float]:
        """Factors of the query kernel at initialisation, and of the queries, in heads of this size."""
        return 1.0, 1.0

    @nn.nowrap
    def project(self, name: str, source: Float[Array, "B S D"], width: int | None = None) -> Float[Array, "B S H K"]:
        """The projection `query`, `key` or `value` of a source, normalised; the queries have their factor.

        Args:
          width: of the residual stream, if the source's is another.
        """
        return self.projection(name, name, width or source.shape[-1])(source)

    @nn.nowrap
    def projection(
        self, name: str, like: str, width: int
    ) -> Callable[[Float[Array, "*rows D"]], Float[Array, "*rows H K"]]:
        """A projection of this name, with the heads, the bias, the norm and the factor of `query`, `key` or `value`.

        It can be called several times.
        """
        assert self.heads and self.kernel_init
        groups = self.kv_heads or self.heads
        if self.heads % groups:
            raise UserError("config.model.kv_heads", f"a divisor of the {self.heads} heads", groups)
        heads, axis = (self.heads, "heads") if like == "query" else (groups, "kv_heads")
        features = heads, head_size(width, self.heads, self.head_size)
        fields: dict[str, Any] = {"use_bias": self.has_bias(like), "kernel_init": self.kernel_init}
        factor = 1.0
        if like == "query":
            fields["scale"], factor = self.query_factors(features[1])
        linear = Linear(features, (axis, "head_size"), **fields, name=name)
        norm = None if self.qk_norm is None or like == "value" else self.qk_norm.clone(parent=self, name=f"norm_{name}")

        def apply(source: Float[Array, "*rows D"]) -> Float[Array, "*rows H K"]:
            projected = checkpoint_name(linear(source), like)
            return scale(projected if norm is None else norm(projected, "head_size"), factor)

        return apply

    @nn.nowrap
    def combine(self, heads: Float[Array, "B L H K"], width: int) -> Float[Array, "B L D"]:
        """The output projection of all heads."""
        assert self.kernel_init
        inputs = ("heads", "head_size")
        use_bias = self.has_bias("out")
        project = Linear(
            (width,), ("embed",), inputs, use_bias, self.kernel_init, self.kernel_init.residual_scale, name="out"
        )
        return checkpoint_name(project(heads), "attention")
