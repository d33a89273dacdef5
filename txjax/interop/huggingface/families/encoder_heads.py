"""The heads of BERT and its kin: one format for each class of the reference, with the names of its tensors."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any, ClassVar

import jax

from txjax.interop.huggingface.options import Options, labels, their_activation
from txjax.interop.huggingface.rules import Form, Rule, linear, norm
from txjax.interop.huggingface.weights import Tensor
from txjax.nn import (
    Classes,
    Head,
    MaskedTokens,
    NextSentence,
    PlainMaskedTokens,
    Pooled,
    Pooler,
    ReplacedTokens,
    StartEnd,
    TokenClasses,
)

Tensors = Mapping[str, Tensor]
# The class "the second sentence follows" is the first one there and the last one here.
_REVERSED = Form(lambda x: x.T[::-1], lambda x, shape: x[::-1].T.reshape(shape))
_REVERSED_BIAS = Form(lambda x: x[::-1], lambda x, shape: x[::-1].reshape(shape))


@dataclasses.dataclass(frozen=True, kw_only=True)
class HeadFormat:
    """Base of a head as a class of the reference has it; as it is, an encoder alone.

    Attributes:
      ending: of the class's name.
      kind: the class of our head.
    """

    kind: ClassVar[type] = type(None)
    ending: str = "Model"

    def reads(self, ending: str, tensors: Tensors) -> bool:
        """Whether it is the format of a folder: of the ending of its architecture, and of its tensors."""
        return ending == self.ending

    def writes(self, head: Head | None) -> bool:
        """Whether it is the format of a head."""
        return isinstance(head, self.kind)

    def head(self, options: Options, tensors: Tensors) -> Head | None:
        """Our head. Raises UserError with the key of an option that txjax can't represent."""
        return None

    def config(self, head: Any) -> dict[str, Any]:
        """The head's entries of config.json."""
        return {}

    def rules(self, head: Any) -> list[Rule]:
        """The rules of the head's parameters."""
        return []

    def copies(self, table: str) -> dict[str, str]:
        """Names of tensors that are copies of another one; `table` is that of the embeddings."""
        return {}

    def outputs(self, output: Any) -> dict[str, jax.Array]:
        """The head's output, under the reference's names."""
        return {}


@dataclasses.dataclass(frozen=True, kw_only=True)
class Features(HeadFormat):
    """An encoder with a pooler.

    Attributes:
      pooler: the module.
    """

    kind = Pooled
    pooler: str

    def head(self, options: Options, tensors: Tensors) -> Head:
        return Pooled(Pooler())

    def rules(self, head: Any) -> list[Rule]:
        return linear(self.pooler, "pooler")

    def outputs(self, output: Any) -> dict[str, jax.Array]:
        return {"pooler_output": output}


@dataclasses.dataclass(frozen=True, kw_only=True)
class Masked(HeadFormat):
    """Masked tokens.

    Attributes:
      transform, norm, decoder: the modules.
      bias: the tensor of the logits' bias.
      activation: the only one of the transform. If None, it is the model's.
    """

    kind = MaskedTokens
    ending: str = "ForMaskedLM"
    transform: str
    norm: str
    decoder: str
    bias: str
    activation: str | None = None

    def head(self, options: Options, tensors: Tensors) -> Head:
        options.fixed(tie_word_embeddings=True)
        if self.activation and options.activation("hidden_act", self.activation) != self.activation:
            expected = f"{self.activation!r}, that of the reference's head"
            raise options.refuse("hidden_act", expected, options.values["hidden_act"])
        return MaskedTokens()

    def rules(self, head: Any) -> list[Rule]:
        bias = Rule(self.bias, ("head/bias",))
        return [*linear(self.transform, "transform"), *norm(self.norm, "norm_transform"), bias]

    def copies(self, table: str) -> dict[str, str]:
        own = f"{self.decoder}.bias"
        return {f"{self.decoder}.weight": table} | ({} if own == self.bias else {own: self.bias})

    def outputs(self, output: Any) -> dict[str, jax.Array]:
        return {"logits": output[0].dense()}


@dataclasses.dataclass(frozen=True, kw_only=True)
class MaskedInPairs(Masked):
    """Masked tokens, and pairs of sentences. Old files of this format have the name of `Masked`.

    Attributes:
      pooler, pairs: the modules of the pairs' classes.
      output: their name among the outputs.
    """

    ending: str = "ForPreTraining"
    pooler: str
    pairs: str
    output: str = "seq_relationship_logits"

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
            *linear(self.pooler, "next_sentence/pooler"),
            Rule(f"{self.pairs}.weight", ("next_sentence/linear/kernel",), _REVERSED),
            Rule(f"{self.pairs}.bias", ("next_sentence/linear/bias",), _REVERSED_BIAS),
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
    ending: str = "WithLMHeadModel"
    decoder: str

    def head(self, options: Options, tensors: Tensors) -> Head:
        options.fixed(asm=False, tie_word_embeddings=True)
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
    ending: str = "ForPreTraining"
    transform: str
    out: str

    def head(self, options: Options, tensors: Tensors) -> Head:
        return ReplacedTokens()

    def rules(self, head: Any) -> list[Rule]:
        return linear(self.transform, "transform") + linear(self.out, "head")

    def outputs(self, output: Any) -> dict[str, jax.Array]:
        return {"logits": output}


@dataclasses.dataclass(frozen=True, kw_only=True)
class Texts(HeadFormat):
    """Classes of texts.

    Attributes:
      pooler, out: the modules.
      activation: of the pooler.
      key: of this activation in config.json. If None, it is always `activation`.
    """

    kind = Classes
    ending: str = "ForSequenceClassification"
    pooler: str
    out: str = "classifier"
    activation: str = "tanh"
    key: str | None = None

    def choices(self) -> Texts:
        """The format of multiple choice if its tensors have the same names: one score a text. It is only read."""
        return dataclasses.replace(self, ending="ForMultipleChoice")

    def head(self, options: Options, tensors: Tensors) -> Head:
        only = self.activation
        activation = only if self.key is None else options.activation(self.key, only, ("tanh",))
        return Classes(_classes(self.out, tensors), Pooler(activation=activation))

    def config(self, head: Any) -> dict[str, Any]:
        activation = their_activation(getattr(head.pool, "activation", self.activation))
        return labels(head.classes) | ({} if self.key is None else {self.key: activation})

    def rules(self, head: Any) -> list[Rule]:
        return linear(self.pooler, "pooler") + linear(self.out, "head")

    def outputs(self, output: Any) -> dict[str, jax.Array]:
        return {"logits": output}


@dataclasses.dataclass(frozen=True, kw_only=True)
class Tokens(HeadFormat):
    """Classes of tokens."""

    kind = TokenClasses
    ending: str = "ForTokenClassification"

    def head(self, options: Options, tensors: Tensors) -> Head:
        return TokenClasses(_classes("classifier", tensors))

    def config(self, head: Any) -> dict[str, Any]:
        return labels(head.classes)

    def rules(self, head: Any) -> list[Rule]:
        return linear("classifier", "head")

    def outputs(self, output: Any) -> dict[str, jax.Array]:
        return {"logits": output}


@dataclasses.dataclass(frozen=True, kw_only=True)
class Spans(HeadFormat):
    """The first and the last token of an answer."""

    kind = StartEnd
    ending: str = "ForQuestionAnswering"

    def head(self, options: Options, tensors: Tensors) -> Head:
        return StartEnd()

    def rules(self, head: Any) -> list[Rule]:
        return linear("qa_outputs", "head")

    def outputs(self, output: Any) -> dict[str, jax.Array]:
        return {"start_logits": output[:, 0], "end_logits": output[:, 1]}


def _classes(module: str, tensors: Tensors) -> int:
    """The number of classes of a linear layer; 1 if it is missing, which the rules find."""
    kernel = f"{module}.weight"
    return tensors[kernel].shape[0] if kernel in tensors else 1
