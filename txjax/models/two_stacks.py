"""The base of models of an encoder and a decoder that reads its output."""

import dataclasses
from typing import Any

import flax.linen as nn

from txjax.models.transformer import Transformer
from txjax.models.transformer_stack import stack_fields
from txjax.nn import MLP, CrossAttention
from txjax.parametrization import Scaling
from txjax.types import config_field


class WithDecoder(Transformer, kw_only=True):
    """The fields of a model with a decoder that reads the output of an encoder.

    Attributes:
      cross: attention of the decoder to the encoder's output.
    """

    cross: CrossAttention = dataclasses.field(default_factory=CrossAttention)

    @nn.nowrap
    def decoder_fields(self) -> dict[str, Any]:
        """The fields of the decoder, for `TransformerStack` inside the model."""
        return stack_fields(self) | {"cross": self.cross.clone(parent=None, name=None)}


class TwoStacks(WithDecoder, kw_only=True):
    """The fields of a model of an encoder and a decoder of one width, whose layers have the same parts.

    Attributes:
      encoder_depth: blocks of the encoder. If None, `depth`, as in the decoder.
      encoder_heads: query heads of the encoder. If None, `heads`, as in the decoder.
      encoder_mlp: the feed-forward layers of the encoder. If None, `mlp`, as in the decoder.
    """

    encoder_depth: int | None = config_field(None, at_least=1)
    encoder_heads: int | None = config_field(None, at_least=1)
    encoder_mlp: MLP | None = None

    @nn.nowrap
    def encoder_fields(self) -> dict[str, Any]:
        """The fields of the encoder, for `TransformerStack` inside the model."""
        sizes = {"depth": self.encoder_depth or self.depth, "heads": self.encoder_heads or self.heads}
        mlp = {} if self.encoder_mlp is None else {"mlp": self.encoder_mlp.clone(parent=None, name=None)}
        return self.decoder_fields() | {"cross": None} | sizes | mlp

    @nn.nowrap
    def scalings(self) -> dict[str, Scaling | None]:
        """The encoder's sizes are its own."""
        depth = self.encoder_depth or self.depth
        head_size = self.clone(parent=None, name=None, heads=self.encoder_heads or self.heads).head_size()
        return {**super().scalings(), "encoder": self.parametrization.scaling(self.width, head_size, depth)}
