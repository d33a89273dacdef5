"""The recurrent encoder-decoder with attention, the baseline of the Transformer."""

import dataclasses
from typing import Any, ClassVar

import flax.linen as nn
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from txjax.errors import UserError
from txjax.models.model import Model
from txjax.models.text.recurrent.alignment import Additive, Alignment, General
from txjax.models.text.recurrent.attention_decoders import AttendingDecoder, BahdanauDecoder, LuongDecoder
from txjax.models.text.recurrent.cells import GRU, LSTM, Cell
from txjax.models.text.recurrent.readout import AttentionalState, Maxout, Readout
from txjax.models.text.recurrent.recurrent_scan import Bidirectional
from txjax.nn import Embed, Encoded, Head, Linear, Mask, StackInputs, Untied, set_model_fields
from txjax.nn.heads.vocab_heads import check_text_head
from txjax.parametrization import Scaling
from txjax.sharding import constrain
from txjax.types import config_field


class RecurrentEncoderDecoder(Model, kw_only=True):
    """The encoder-decoder of Bahdanau et al. (2015), appendix A. `luong` returns one as in Luong et al. (2015).

    Parameters: `embed`, `embed_source` if the source has a vocabulary of its own, `encoder` (`forward`, `backward`),
    `start`, `decoder`, `out`, `head`.

    An adapter's tokens (`Prompt`) are before the source in the encoder, `encoder`; the decoder attends to the source
    alone.

    A row has one source and one target; packed pairs are not supported. Padding (segment 0) may be anywhere in a row.

    Applied with `mutable=["cache"]` it decodes step by step: the first call has the source, which is encoded then;
    later calls have the next tokens alone.

    Attributes:
      vocab: size of the vocabulary, V.
      width: size D of the decoder's states.
      source_vocab: size of the source's vocabulary. If None, source and target have one vocabulary and one embedding.
      embed_width: size of the embeddings. If None, `width`.
      encoder_width: size of the encoder's states, in each direction. If None, `width`.
      embedding: how tokens are embedded.
      cell: the cell of encoder and decoder.
      alignment: how the decoder's states and the source's annotations are compared.
      attend: whether the decoder attends before it updates its state, or after.
      readout: from state, embedded token and context to the features of the next token.
      use_bias: whether cells, alignment, the first state and the readout have biases. The paper's formulas have none.
      head: from the features to the output. If None, the output is `Encoded`.
      dropout: of the embeddings and of the readout.
    """

    stack_name: ClassVar[str] = "encoder"
    keeps_prompts: ClassVar[bool] = True

    vocab: int = config_field(at_least=1)
    width: int = config_field(at_least=1)
    source_vocab: int | None = config_field(None, at_least=1)
    embed_width: int | None = config_field(None, at_least=1)
    encoder_width: int | None = config_field(None, at_least=1)
    embedding: Embed = dataclasses.field(default_factory=Embed)
    cell: Cell = dataclasses.field(default_factory=GRU)
    alignment: Alignment = dataclasses.field(default_factory=Additive)
    attend: AttendingDecoder = dataclasses.field(default_factory=BahdanauDecoder)
    readout: Readout = dataclasses.field(default_factory=Maxout)
    use_bias: bool = False
    head: Head | None = dataclasses.field(default_factory=Untied)
    dropout: float = config_field(0.0, at_least=0, below=1)

    @nn.compact
    def __call__(
        self,
        tokens: Int[Array, "B L"],
        source_tokens: Int[Array, "B S"] | None = None,
        source_segments: Int[Array, "B S"] | None = None,
        segments: Int[Array, "B L"] | None = None,
        positions: Int[Array, "B L"] | None = None,
        train: bool = False,
    ) -> Any:
        """The head's output: by default, lazy logits [B L V] of the token after each one.

        Args:
          tokens: the target, which begins with a start token.
          source_tokens: the source. If None, the one of an earlier call of step-by-step decoding.
          source_segments: 1, and 0 for padding. If None, no token is padding.
          segments: the same for `tokens`.
          positions: ignored: a recurrence counts by itself.
        """
        check_text_head(self.head)
        fields = self.parts_fields()
        of_decoder = {"width": self.width, **fields}
        cell, alignment, readout = (
            set_model_fields(getattr(self, name), f"config.model.{name}", **of_decoder)
            for name in ("cell", "alignment", "readout")
        )

        def embedded(table: Embed, ids: Int[Array, "B N"]) -> Float[Array, "B N M"]:
            x = nn.Dropout(self.dropout, deterministic=not train)(table(ids, self.dtype))
            return constrain(x, "batch", None, "width")

        embed = self.table(self.vocab, "embed")
        hidden = values = source_real = None
        if source_tokens is not None:
            table = embed if self.source_vocab is None else self.table(self.source_vocab, "embed_source")
            source_real = None if source_segments is None else source_segments > 0
            numbers = jnp.arange(source_tokens.shape[1], dtype=jnp.int32)[None]
            inputs = StackInputs(numbers, numbers, Mask.within(source_segments), train)
            encoded = self.layers(embedded(table, source_tokens), inputs)
            start = Linear((self.width,), ("width",), **fields, name="start")
            prompt = encoded[1].shape[1] - source_tokens.shape[1]
            hidden = jnp.tanh(start(encoded[1][:, 0]))
            values = jnp.concatenate(encoded, axis=-1)[:, prompt:]
        elif self.is_initializing() or not self.is_mutable_collection("cache"):
            hint = "NextToken on pairs of source and target does, and SpanCorruption on any text"
            raise UserError("config.objective", "an objective that gives the model source_tokens", hint=hint)
        decoder = set_model_fields(self.attend, "config.model.attend", cell=cell, alignment=alignment)
        token_mask = None if segments is None else segments > 0
        targets = embedded(embed, tokens)
        states, contexts = decoder.clone(parent=self, name="decoder")(targets, hidden, values, source_real, token_mask)
        x = readout.clone(parent=self, name="out")(states, targets, contexts)
        x = nn.Dropout(self.dropout, deterministic=not train)(x)
        return self.apply_head(Encoded(constrain(x, "batch"), segments, embed.embedding), self.head, train)

    @nn.nowrap
    def parts_fields(self) -> dict[str, Any]:
        """What the model sets in its parts, but for their sizes."""
        return {"use_bias": self.use_bias, "kernel_init": self.kernel_init}

    @nn.nowrap
    def takes_prompts(self) -> bool:
        """Whether an adapter's tokens may be before those of the source."""
        return True

    def layers(self, x: Float[Array, "B S M"], inputs: StackInputs) -> tuple[jax.Array, jax.Array]:
        """The encoder's states in both directions. An adapter's tokens stay before those of the source.

        The backward cell reads them last, so the decoder starts from what both they and the source give.
        """
        return self.read_source(x, inputs)

    def read_source(self, x: Float[Array, "B S M"], inputs: StackInputs) -> tuple[jax.Array, jax.Array]:
        """The encoder's only layer."""
        fields = self.parts_fields() | {"width": self.encoder_width or self.width}
        cell = set_model_fields(self.cell, "config.model.cell", **fields)
        segments = inputs.mask.key_segments
        return Bidirectional(cell, name="encoder")(x, None if segments is None else segments > 0)

    @nn.nowrap
    def table(self, vocab: int, name: str) -> Embed:
        """An embedding of so many tokens."""
        fields: dict[str, Any] = {"width": self.embed_width or self.width, "scaling": self.layer_scaling()}
        embedding = set_model_fields(self.embedding, "config.model.embedding", vocab=vocab, **fields)
        return embedding.clone(parent=self, name=name)

    @nn.nowrap
    def scaling(self) -> Scaling | None:
        """The scaling by the width, along with which the other sizes grow; there are no heads, whose size counts as 1.

        Raises:
          UserError: a parametrization of the depth; there is one layer.
        """
        scaling = self.parametrization.scaling(self.width, 1, 1)
        if scaling and scaling.alpha:
            got = type(self.parametrization).__name__
            raise UserError("config.model.parametrization", "MuP() or Standard() for a recurrence of one layer", got)
        return scaling


def luong(*, vocab: int, width: int, **fields: Any) -> RecurrentEncoderDecoder:
    """An encoder-decoder as in Luong et al. 2015: LSTMs, attention after the update, the general score.

    One layer, its encoder in both directions (the paper's has four, in one), without input feeding.
    """
    style: dict[str, Any] = dict(
        cell=LSTM(), alignment=General(), attend=LuongDecoder(), readout=AttentionalState(), use_bias=True
    )
    return RecurrentEncoderDecoder(vocab=vocab, width=width, **style | fields)
