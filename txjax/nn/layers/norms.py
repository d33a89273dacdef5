"""Norms of each token, of groups of channels and of batches: computed in float32, returned in the input's dtype."""

import contextlib

import flax.linen as nn
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from txjax.errors import UserError
from txjax.nn.layers.linear import align, parameter
from txjax.scoped import Scoped
from txjax.sharding import constrain
from txjax.types import config_field

Positions = Bool[Array, "#B *#positions"]  # those that are not padding

# The microbatches of which the batch that is being traced is one.
_microbatches = Scoped("microbatches", 1)


class Norm(nn.Module):
    """Base of norms: x [..., D] -> the same shape and dtype, computed in float32. `axis`: the logical name of D."""

    eps: float = config_field(1e-6, above=0, traced=True)

    def vector(self, name: str, draw: nn.initializers.Initializer, x: jax.Array, axis: str) -> jax.Array:
        """A learned vector over the last dimension of `x`, whose logical name is `axis`, broadcastable to it."""
        return align(parameter(self, name, draw, x.shape[-1:], (axis,)), x)

    @nn.nowrap
    def normalise(
        self, x: Float[Array, "B *positions D"], train: bool, axis: str = "embed", mask: Positions | None = None
    ) -> Float[Array, "B *positions D"]:
        """The norm of x. A norm that differs in training, or whose statistics are of several positions, overrides this.

        Args:
          axis: the logical name of D.
          mask: the positions that are not padding, which statistics never read. If None, all are real.
        """
        return self(x, axis)


class LayerNorm(Norm):
    """(x - mean) / sqrt(variance + eps) * scale + bias (Ba et al. 2016).

    Attributes:
      use_bias: whether there is a learned bias, initialised to zero.
    """

    use_bias: bool = True

    @nn.compact
    def __call__(self, x: Float[Array, "*batch D"], axis: str = "embed") -> Float[Array, "*batch D"]:
        y = x.astype(jnp.float32)
        y = y - y.mean(-1, keepdims=True)
        y = y * jax.lax.rsqrt(jnp.square(y).mean(-1, keepdims=True) + self.eps)
        y = y * self.vector("scale", nn.initializers.ones, y, axis)
        if self.use_bias:
            y = y + self.vector("bias", nn.initializers.zeros, y, axis)
        return y.astype(x.dtype)


class RMSNorm(Norm):
    """x / sqrt(mean(x^2) + eps) * scale (Zhang and Sennrich 2019)."""

    @nn.compact
    def __call__(self, x: Float[Array, "*batch D"], axis: str = "embed") -> Float[Array, "*batch D"]:
        y = x.astype(jnp.float32)
        y = y * jax.lax.rsqrt(jnp.square(y).mean(-1, keepdims=True) + self.eps)
        return (y * self.vector("scale", nn.initializers.ones, y, axis)).astype(x.dtype)


class GroupNorm(Norm):
    """`LayerNorm` over an example's positions and a group of its channels (Wu and He 2018).

    One group is PoolFormer's norm (Yu et al. 2022), in which all tokens of an image are one vector.

    Attributes:
      groups: equal parts of the channels, one after the other.
    """

    eps: float = config_field(1e-5, above=0, traced=True)
    groups: int = config_field(32, at_least=1)

    @nn.nowrap
    def normalise(
        self, x: Float[Array, "B *positions D"], train: bool, axis: str = "embed", mask: Positions | None = None
    ) -> Float[Array, "B *positions D"]:
        return self(x, axis, mask)

    @nn.compact
    def __call__(
        self, x: Float[Array, "B *positions D"], axis: str = "embed", mask: Positions | None = None
    ) -> Float[Array, "B *positions D"]:
        """The same shape and dtype. Raises UserError if the groups don't divide the channels."""
        channels = x.shape[-1]
        if channels % self.groups:
            raise UserError("GroupNorm.groups", f"a divisor of the {channels} channels", self.groups)
        y = x.astype(jnp.float32).reshape(len(x), -1, channels)
        where = None if mask is None else jnp.broadcast_to(mask, x.shape[:-1]).reshape(*y.shape[:2], 1)

        def mean(y: Float[Array, "B N D"]) -> Float[Array, "B 1 D"]:
            # Over positions first: a few channels as the last dimension would be slow.
            by_channel = y.mean(1, keepdims=True, where=where)
            by_group = by_channel.reshape(len(y), 1, self.groups, -1).mean(-1)
            return jnp.repeat(by_group, channels // self.groups, axis=-1)

        y = y - mean(y)
        y = y * jax.lax.rsqrt(mean(jnp.square(y)) + self.eps)
        y = y.reshape(x.shape) * self.vector("scale", nn.initializers.ones, x.astype(jnp.float32), axis)
        return (y + self.vector("bias", nn.initializers.zeros, y, axis)).astype(x.dtype)


class GroupNormRelu(GroupNorm):
    """relu(GroupNorm(x)), which comes before each convolution of a pre-activation network (He et al. 2016)."""

    @nn.compact
    def __call__(
        self, x: Float[Array, "B *positions D"], axis: str = "embed", mask: Positions | None = None
    ) -> Float[Array, "B *positions D"]:
        return nn.relu(super().__call__(x, axis, mask))


def microbatch_of(microbatches: int) -> contextlib.AbstractContextManager[int]:
    """The batch of everything traced inside is one of so many microbatches: parts by `train.step.cut`."""
    return _microbatches.within(microbatches)


class BatchNorm(Norm):
    """(x - mean) / sqrt(variance + eps) * scale + bias by channel (Ioffe and Szegedy 2015), computed in float32.

    In training mean and variance are those of the batch: over its examples and positions, or, with `group`, over every
    `group` examples (Hoffer et al. 2017, ghost batch normalization). In evaluation they are running averages of these:
    after each update momentum * average + (1 - momentum) * value, for several groups the mean of their values. As in
    the paper and in PyTorch, the average is of the unbiased variance, the batch is normalised by the biased one.

    Group g of G has the examples g, g + G, g + 2 G, ... of the batch. So its examples are the same in any number of
    microbatches that its size allows, whose averages are then averaged, and no example changes its device: the step is
    the same on every mesh and with any number of microbatches. All examples of a batch count, whatever their weights,
    and of each the positions that are not padding.

    Parameters: `scale`, `bias` [D]. Collection "batch_stats": `mean`, `var` [D], float32.

    Attributes:
      momentum: the share of an average that an update keeps (PyTorch's `momentum` is 1 minus it).
      group: examples of a group, a divisor of a microbatch's. If None, the whole batch is one group, so that a step of
        several microbatches is an error.
    """

    momentum: float = config_field(0.9, at_least=0, below=1, traced=True)
    eps: float = config_field(1e-5, above=0, traced=True)
    group: int | None = config_field(None, at_least=1)

    @nn.compact
    def __call__(
        self, x: Float[Array, "B *positions D"], train: bool, axis: str = "embed", mask: Positions | None = None
    ) -> Float[Array, "B *positions D"]:
        """The same shape and dtype. `axis`, `mask`: as in `normalise`.

        Raises:
          UserError: if `train`, groups that don't divide the batch, of one value, or microbatches of a whole batch.
        """
        size = x.shape[-1:]
        averages = [
            self.variable("batch_stats", name, draw, size, jnp.float32)
            for name, draw in (("mean", jnp.zeros), ("var", jnp.ones))
        ]
        y = x.astype(jnp.float32)
        if train:
            mean, var = self._normalised_by(y, averages, mask)
        else:
            mean, var = (align(average.value, y) for average in averages)
        y = (y - mean) * jax.lax.rsqrt(var + self.eps)
        for name, draw, combine in (
            ("scale", nn.initializers.ones, jnp.multiply),
            ("bias", nn.initializers.zeros, jnp.add),
        ):
            y = combine(y, self.vector(name, draw, y, axis))
        return y.astype(x.dtype)

    @nn.nowrap
    def normalise(
        self, x: Float[Array, "B *positions D"], train: bool, axis: str = "embed", mask: Positions | None = None
    ) -> Float[Array, "B *positions D"]:
        return self(x, train, axis, mask)

    @nn.nowrap
    def _normalised_by(
        self, y: jax.Array, averages: list[nn.Variable], mask: Positions | None
    ) -> tuple[jax.Array, jax.Array]:
        """Mean and variance of every example's group, [B 1 ... D]; updates the averages."""
        group = self._examples(len(y))
        positions = tuple(range(1, y.ndim - 1))
        count: int | jax.Array = group * (y[0].size // y.shape[-1])
        if count == 1:
            raise UserError("BatchNorm.group", "more than one value to take statistics of", self.group)

        where = None if mask is None else jnp.broadcast_to(mask, y.shape[:-1])[..., None]
        if where is not None:
            count = jnp.maximum(where.sum(positions, dtype=jnp.float32).reshape(group, -1, 1).sum(0), 2)

        # Only means and sums of examples are regrouped: [B D] is small, and nothing else leaves its device.
        def of_groups(values: jax.Array) -> jax.Array:
            if where is None:
                return values.mean(positions).reshape(group, -1, y.shape[-1]).mean(0)
            return values.sum(positions, where=where).reshape(group, -1, y.shape[-1]).sum(0) / count

        def of_examples(values: jax.Array) -> jax.Array:
            return jnp.expand_dims(constrain(jnp.tile(values, (group, 1)), "batch"), positions)

        mean = of_groups(y)
        whole = of_examples(mean)
        var = of_groups(jnp.square(y - whole))
        if not self.is_initializing():
            for average, statistic in zip(averages, (mean, var * (count / (count - 1))), strict=True):
                average.value = self.momentum * average.value + (1 - self.momentum) * statistic.mean(0)
        return whole, of_examples(var)

    @nn.nowrap
    def _examples(self, batch: int) -> int:
        """The number of examples of a group."""
        parts = _microbatches.get()
        where = "/".join(self.path) or "the model"
        if self.group is None and parts > 1:
            hint = f"set group in {where}, which must divide batch_size / microbatches = {batch}"
            raise UserError("config.microbatches", "1 for BatchNorm over whole batches (group=None)", parts, hint=hint)
        group = self.group or batch
        if batch % group:
            cut = f" in each of {parts} microbatches" if parts > 1 else ""
            raise UserError(f"BatchNorm.group of {where}", f"a divisor of the {batch} examples{cut}", group)
        return group


class FrozenBatchNorm(Norm):
    """`BatchNorm` of which nothing is trained: what it normalises by, scale and bias are constants.

    Collection "batch_stats": `mean`, `var`, `scale`, `bias` [D], float32; at first 0, 1, 1 and 0, so that it needs
    `init_from` or an imported file to have an effect.
    """

    eps: float = config_field(1e-5, above=0)

    @nn.compact
    def __call__(self, x: Float[Array, "B *positions D"], axis: str = "embed") -> Float[Array, "B *positions D"]:
        draws = {"mean": jnp.zeros, "var": jnp.ones, "scale": jnp.ones, "bias": jnp.zeros}
        mean, var, scale, bias = (
            self.variable("batch_stats", name, draw, x.shape[-1:], jnp.float32).value for name, draw in draws.items()
        )
        factor = scale * jax.lax.rsqrt(var + self.eps)
        y = x.astype(jnp.float32)
        return (y * align(factor, y) + align(bias - mean * factor, y)).astype(x.dtype)
