"""What makes one output of the two branches of a Branchformer's layer."""

from collections.abc import Callable

import flax.linen as nn
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from txjax.nn import LayerContext, Linear, sow_aux
from txjax.nn.layers.linear import scale
from txjax.nn.parameters.init import KernelInit
from txjax.types import config_field

Branch = Callable[[], Float[Array, "B L D"]]  # a branch has parameters if it is called


class Merge(nn.Module):
    """Base of merges: a linear layer of what a subclass makes of two branches. Parameters: `out`.

    Attributes:
      width: size D of the residual stream; set by the model.
      kernel_init: set by the model.
    """

    width: int | None = None
    kernel_init: KernelInit | None = None

    def combine(self, mixer: Branch, mlp: Branch, context: LayerContext) -> Float[Array, "B L E"]:
        """What the linear layer reads."""
        raise NotImplementedError

    @nn.compact
    def __call__(self, mixer: Branch, mlp: Branch, context: LayerContext) -> Float[Array, "B L D"]:
        """The output of the layer's branch, of the dtype of the two branches."""
        assert self.width and self.kernel_init
        combined = self.combine(mixer, mlp, context)
        return Linear((self.width,), ("embed",), ("width",), kernel_init=self.kernel_init, name="out")(combined)


class Concatenation(Merge):
    """linear([mixer; mlp]) (Peng et al. 2022, 3): `out` has 2 D inputs."""

    def combine(self, mixer: Branch, mlp: Branch, context: LayerContext) -> Float[Array, "B L E"]:
        return jnp.concatenate([mixer(), mlp()], -1)


class FixedAverage(Merge):
    """linear((1 - w) mixer + w mlp), as in ESPnet.

    Attributes:
      mlp_weight: w. With 0 or 1 there is only one branch, and the other one has no parameters.
    """

    mlp_weight: float = config_field(0.5, at_least=0, at_most=1)

    def combine(self, mixer: Branch, mlp: Branch, context: LayerContext) -> Float[Array, "B L E"]:
        if self.mlp_weight in (0, 1):
            return mlp() if self.mlp_weight else mixer()
        return (1 - self.mlp_weight) * mixer() + self.mlp_weight * mlp()


class LearnedAverage(Merge):
    """linear(w mixer + (1 - w) mlp) with a w of each example (Peng et al. 2022, 3).

    Each branch is pooled over time by attention with one learned query, and scored by a linear layer; the two scores
    pass a softmax. Training reports the mean of w in layer i as `mixer_weight/layer_i`.

    Parameters: also `pool_mixer`, `pool_mlp`, `score_mixer`, `score_mlp` [D 1], each with a bias, of which those of
    the pools change nothing: ESPnet has them.

    Attributes:
      branch_dropout: the fraction of examples for which training drops the mixer's branch, that is, w = 0.
    """

    branch_dropout: float = config_field(0.0, at_least=0, at_most=1)

    def combine(self, mixer: Branch, mlp: Branch, context: LayerContext) -> Float[Array, "B L E"]:
        branches = {"mixer": mixer(), "mlp": mlp()}
        scores = [self.score(name, x, context) for name, x in branches.items()]
        weight = nn.sigmoid(scores[0] - scores[1])
        sow_aux(self, "layer_metrics", "mixer_weight", weight[:, None])
        if self.branch_dropout and context.train:
            stays = jax.random.bernoulli(self.make_rng("dropout"), 1 - self.branch_dropout, weight.shape)
            weight = weight * stays
        weight = weight[:, None, None].astype(branches["mixer"].dtype)
        return weight * branches["mixer"] + (1 - weight) * branches["mlp"]

    @nn.nowrap
    def score(self, name: str, x: Float[Array, "B L D"], context: LayerContext) -> Float[Array, "B"]:
        """The score of a branch's output, float32. Padding has no part in it."""
        assert self.width and self.kernel_init
        base_width = self.width / self.kernel_init.scaling.width
        logits = scale(self.project(f"pool_{name}", x), base_width**-0.5)
        if (key_mask := context.key_mask) is not None:
            logits = jnp.where(key_mask, logits, jnp.finfo(logits.dtype).min)
        shares = nn.softmax(logits).astype(x.dtype)
        return self.project(f"score_{name}", jnp.einsum("bl,bld->bd", shares, x))

    @nn.nowrap
    def project(self, name: str, x: Float[Array, "*rows D"]) -> Float[Array, "*rows"]:
        """A linear layer with one output, float32."""
        assert self.kernel_init
        linear = Linear((1,), ("scores",), ("width",), kernel_init=self.kernel_init, name=name)
        return linear(x, jnp.float32)[..., 0]
