"""Heads of pretraining of BERT and its relatives; `encoder_heads.py` has the heads of other tasks."""

from __future__ import annotations

import dataclasses
from typing import Any

import jax

from txjax.interop.huggingface.options import Options
from txjax.interop.huggingface.rules import Rule, TensorLayout, linear, norm
from txjax.interop.huggingface.shared.encoder_heads import HeadFormat, Tensors
from txjax.nn import Head, MaskedTokens, NextSentence, PlainMaskedTokens, ReplacedTokens

# The class "the second sentence follows" is the first one there and the last one here.
_REVERSED = TensorLayout(lambda x: x.T[::-1], lambda x, shape: x[::-1].T.reshape(shape))
_REVERSED_BIAS = TensorLayout(lambda x: x[::-1], lambda x, shape: x[::-1].reshape(shape))


@dataclasses.dataclass(frozen=True, kw_only=True)
class Masked(HeadFormat):
    """Masked tokens.

    Attributes:
      transform, norm, decoder: the modules.
      bias: the tensor of the logits' bias.
      activation: the only one of the transform. If None, it is the model's.
    """

    kind = MaskedTokens
    txjax_head = "`MaskedTokens()`"
    ending: str = "ForMaskedLM"
    transform: str
    norm: str
    decoder: str
    bias: str
    activation: str | None = None

    def head(self, options: Options, tensors: Tensors) -> Head:
        options.require(tie_word_embeddings=True)
        if self.activation and options.activation("hidden_act", self.activation) != self.activation:
            expected = f"{self.activation!r}, that of the reference's head"
            raise options.refuse("hidden_act", expected, options.values["hidden_act"])
        return MaskedTokens()

    def rules(self, head: Any) -> list[Rule]:
        bias = Rule(self.bias, ("head/bias",))
        return [*linear(self.transform, "transform"), *norm(self.norm, "norm_transform"), bias]

    def copies(self, table: str) -> dict[str, str]:
        decoder_bias = f"{self.decoder}.bias"
        return {f"{self.decoder}.weight": table} | ({} if decoder_bias == self.bias else {decoder_bias: self.bias})

    def outputs(self, output: Any) -> dict[str, jax.Array]:
        return {"logits": output[0].dense()}


@dataclasses.dataclass(frozen=True, kw_only=True)
class MaskedInPairs(Masked):
    """Masked tokens, and pairs of sentences. Old files of this format have the name of `Masked`.

    Attributes:
      pooler, pairs: the modules of the pairs' classes.
      output: their name among the outputs.
    """

    txjax_head = "`MaskedTokens(next_sentence=NextSentence())`"
    ending: str = "ForPreTraining"
    pooler: str
    pairs: str
    output: str = "seq_relationship_logits"

    @property
    def output_names(self) -> tuple[str, ...]:  # type: ignore[override]
        return ("logits", "prediction_logits", self.output)

    def reads(self, ending: str, tensors: Tensors) -> bool:
        old = ending == Masked.ending and f"{self.pairs}.weight" in tensors
        return old or super().reads(ending, tensors)

    def writes(self, head: Head | None) -> bool:
        return isinstance(head, MaskedTokens) and head.next_sentence is not None

    def head(self, options: Options, tensors: Tensors) -> Head:
        super().head(options, tensors)
        return MaskedTokens(next_sentence=NextSentence())

    def rules(self, head: Any) -> list[Rule]:
        return [
            *super().rules(head),
            *linear(self.pooler, "pooler"),
            Rule(f"{self.pairs}.weight", ("next_sentence/kernel",), _REVERSED),
            Rule(f"{self.pairs}.bias", ("next_sentence/bias",), _REVERSED_BIAS),
        ]

    def outputs(self, output: Any) -> dict[str, jax.Array]:
        logits = output[0].dense()
        return {"logits": logits, "prediction_logits": logits, self.output: output[1][:, ::-1]}


@dataclasses.dataclass(frozen=True, kw_only=True)
class PlainMasked(HeadFormat):
    """Masked tokens without a transform.

    Attributes:
      decoder: the module.
    """

    kind = PlainMaskedTokens
    txjax_head = "`PlainMaskedTokens()`"
    ending: str = "WithLMHeadModel"
    decoder: str

    def head(self, options: Options, tensors: Tensors) -> Head:
        options.require(asm=False, tie_word_embeddings=True)
        return PlainMaskedTokens()

    def rules(self, head: Any) -> list[Rule]:
        return [Rule(f"{self.decoder}.bias", ("head/bias",))]

    def copies(self, table: str) -> dict[str, str]:
        return {f"{self.decoder}.weight": table}

    def outputs(self, output: Any) -> dict[str, jax.Array]:
        return {"logits": output[0].dense()}


@dataclasses.dataclass(frozen=True, kw_only=True)
class Replaced(HeadFormat):
    """Replaced tokens.

    Attributes:
      transform, out: the modules.
    """

    kind = ReplacedTokens
    txjax_head = "`ReplacedTokens()`"
    ending: str = "ForPreTraining"
    transform: str
    out: str

    def rules(self, head: Any) -> list[Rule]:
        return linear(self.transform, "transform") + linear(self.out, "head")
