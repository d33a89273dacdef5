"""Trained vectors as further tokens before those of a model's input."""

import dataclasses
from typing import Any, ClassVar

import flax.linen as nn
import jax.numpy as jnp
from jaxtyping import Array, Float

from txjax.nn.adapters.adapter import Adapter
from txjax.nn.layers.linear import parameter
from txjax.types import config_field


class PromptRows(nn.Module):
    """The tokens before x [B L D], or in the place of its first ones. Parameter `tokens` [n D].

    Attributes:
      length: n.
      std: standard deviation at initialisation.
      dropout: of the tokens, in training, where the call has a key for it.
    """

    length: int
    std: float
    dropout: float

    @nn.compact
    def __call__(self, x: Float[Array, "B L D"]) -> Float[Array, "B M D"]:
        shape = (self.length, x.shape[-1])
        axes = ("prompt", "embed")
        rows = parameter(self, "tokens", nn.initializers.normal(self.std), shape, axes, inputs=1).astype(x.dtype)
        rows = nn.Dropout(self.dropout, deterministic=not self.has_rng("dropout"))(rows)
        return before(rows, x)


def before(rows: Float[Array, "n D"], x: Float[Array, "B L D"]) -> Float[Array, "B M D"]:
    """The same rows before those of every example."""
    return jnp.concatenate([jnp.broadcast_to(rows, (x.shape[0], *rows.shape)), x], axis=1)


@dataclasses.dataclass
class Prompt(Adapter):
    """`length` trained tokens before those of each input (Lester et al. 2021; Jia et al. 2022, VPT-shallow).

    They enter a stack of layers after the embeddings, so they have no absolute positions; where positions are relative,
    they have those before the first token's. Every token sees them, whatever its segment, and causal attention is
    causal among them too. After the stack they are removed. `paths` chooses stacks, such as `encoder/layers`.

    Attributes:
      length: n.
      std: standard deviation at initialisation.
      dropout: of the tokens, in training.
      first_position: of the text of a causal model. (In the library peft a text begins at position `length`.)
    """

    name: ClassVar[str] = "prompt"
    of: ClassVar[str] = "stack"

    length: int = config_field(10, at_least=1)
    std: float = config_field(0.02, at_least=0)
    dropout: float = config_field(0.0, at_least=0, below=1)
    first_position: int = config_field(0, at_least=0)  # type: ignore[misc]

    def tokens(self) -> int:
        return self.length

    def rows(self) -> nn.Module:
        """The module that has the tokens."""
        return PromptRows(self.length, self.std, self.dropout, name=self.name)

    def enter(self, module: Any, x: Float[Array, "B L D"]) -> Float[Array, "B M D"]:
        return self.rows()(x)

    def replace(self, module: Any, x: Float[Array, "B M D"]) -> Float[Array, "B M D"]:
        """The input of a layer of the stack."""
        return x


@dataclasses.dataclass
class DeepPrompt(Prompt):
    """A `Prompt` with tokens of its own at every layer, in the place of its outputs (Jia et al. 2022, VPT-deep).

    Parameters `layers/block/prompt/tokens` [layers n D].
    """

    def enter(self, module: Any, x: Float[Array, "B L D"]) -> Float[Array, "B M D"]:
        return before(jnp.zeros((self.length, x.shape[-1]), x.dtype), x)

    def replace(self, module: Any, x: Float[Array, "B M D"]) -> Float[Array, "B M D"]:
        return self.rows()(x[:, self.length :])
