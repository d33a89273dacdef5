"""What a discriminator has of its generator's embeddings."""

import dataclasses
import operator
from typing import Any, NamedTuple

import flax.linen as nn
import jax
from jax.typing import DTypeLike
from jaxtyping import Array, Float, Int

from txjax import tree
from txjax.errors import UserError
from txjax.models.text.embeddings import Embeddings
from txjax.nn import Embed, Positions
from txjax.types import PyTree

_NAMES = ("embed", "embed_types", "embed_languages", "positions")


@dataclasses.dataclass
class Sharing:
    """Base of the ways to share embeddings."""

    def __call__(self, embeddings: Embeddings, model: Any) -> Embeddings | None:
        """The discriminator's embeddings; new parameters are the model's. If None, it has its own.

        Raises:
          UserError: the two have embeddings of different widths or kinds.
        """
        raise NotImplementedError

    def tables(self, params: PyTree) -> PyTree:
        """The parameters of the discriminator's embeddings, computed from the model's."""
        raise NotImplementedError


@dataclasses.dataclass
class Separate(Sharing):
    """Nothing is shared."""

    def __call__(self, embeddings: Embeddings, model: Any) -> None:
        return None

    def tables(self, params: PyTree) -> PyTree:
        return {}


@dataclasses.dataclass
class Shared(Sharing):
    """Tokens, types and positions are shared, and trained by both losses (Clark et al. 2020, 3.2)."""

    def __call__(self, embeddings: Embeddings, model: Any) -> Embeddings:
        width = embeddings.tokens.width
        other = model.discriminator.embed_width or model.discriminator.width
        if width != other:
            expected = f"{width}, the width of the generator's embeddings, which are shared"
            raise UserError("config.model.discriminator.embed_width", expected, other)
        for field in ("types", "languages", "positions"):
            ours, theirs = (_added(getattr(part, field)) for part in (model.generator, model.discriminator))
            if ours != theirs:
                expected = f"{ours}, as the generator's, which are shared"
                raise UserError(f"config.model.discriminator.{field}", expected, theirs)
        return embeddings

    def tables(self, params: PyTree) -> PyTree:
        return {name: params[name] for name in _NAMES if name in params}


@dataclasses.dataclass
class GradientDisentangled(Shared):
    """The discriminator adds a table of its own to the generator's, and doesn't train that one (He et al. 2023, 3.2).

    Parameter `embed_difference` [V E], at first zero.
    """

    def __call__(self, embeddings: Embeddings, model: Any) -> Embeddings:
        shared = super().__call__(embeddings, model)
        tokens = embeddings.tokens
        difference = _Zeros(tokens.vocab, tokens.width, name="embed_difference", parent=model)
        return shared._replace(tokens=_Sum(tokens, difference))

    def tables(self, params: PyTree) -> PyTree:
        embed = jax.tree.map(operator.add, params["embed"], params["embed_difference"])
        return super().tables(params) | {"embed": embed}


def _added(field: Any) -> Any:
    """A field that decides which embeddings are added, without a model around it; None for other positions."""
    if not isinstance(field, Positions):
        return field
    if type(field).add is Positions.add:
        return None
    fields = (f"{part.name}={getattr(field, part.name)}" for part in tree.config_fields(field))
    return f"{type(field).__name__}({', '.join(fields)})"


class _Zeros(Embed):
    """A table that is zero at first."""

    @nn.nowrap
    def deviation(self) -> float:
        return 0.0


class _Sum(NamedTuple):
    """The sum of a table that is not trained by what reads this one, and of one that is."""

    fixed: Embed
    trained: Embed

    @property
    def embedding(self) -> Float[Array, "V E"]:
        """The table."""
        return jax.lax.stop_gradient(self.fixed.embedding) + self.trained.embedding

    def __call__(self, ids: Int[Array, "*batch"], dtype: DTypeLike) -> Float[Array, "*batch E"]:
        """Its rows of these ids."""
        return jax.lax.stop_gradient(self.fixed(ids, dtype)) + self.trained(ids, dtype)
