"""Heads of BERT and its relatives for the tasks of fine-tuning: one format for each class of the reference."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any, ClassVar

import jax

from txjax.interop.huggingface.options import Options, labels, their_activation
from txjax.interop.huggingface.rules import Rule, linear
from txjax.interop.huggingface.weights import Tensor
from txjax.nn import Classes, Head, Pooled, Pooler, StartEnd, TokenClasses

Tensors = Mapping[str, Tensor]


@dataclasses.dataclass(frozen=True, kw_only=True)
class HeadFormat:
    """Base of a head as a class of the reference has it.

    Attributes:
      ending: of the class's name.
      kind: the class of our head.
      txjax_head: our head in Markdown, for docs/interop.md.
      output_names: the names of its outputs.
    """

    kind: ClassVar[type]
    txjax_head: ClassVar[str]
    output_names: ClassVar[tuple[str, ...]] = ("logits",)
    ending: str

    def reads(self, ending: str, tensors: Tensors) -> bool:
        """Whether it is the format of a folder: of the ending of its architecture, and of its tensors."""
        return ending == self.ending

    def writes(self, head: Head | None) -> bool:
        """Whether it is the format of a head."""
        return isinstance(head, self.kind)

    def head(self, options: Options, tensors: Tensors) -> Head | None:
        """Our head. Raises UserError with the key of an option that txjax can't represent."""
        return self.kind()

    def config(self, head: Any) -> dict[str, Any]:
        """The head's entries of config.json."""
        return {}

    def rules(self, head: Any) -> list[Rule]:
        """The rules of the head's parameters."""
        raise NotImplementedError

    def copies(self, table: str) -> dict[str, str]:
        """Names of tensors that are copies of another one; `table` is that of the embeddings."""
        return {}

    def outputs(self, output: Any) -> dict[str, jax.Array]:
        """The head's output, under the reference's names."""
        return {"logits": output}


@dataclasses.dataclass(frozen=True, kw_only=True)
class Alone(HeadFormat):
    """An encoder without a head."""

    kind = type(None)
    txjax_head = "None"
    output_names = ()
    ending: str = "Model"

    def rules(self, head: Any) -> list[Rule]:
        return []

    def outputs(self, output: Any) -> dict[str, jax.Array]:
        return {}


@dataclasses.dataclass(frozen=True, kw_only=True)
class Features(HeadFormat):
    """An encoder with a pooler.

    Attributes:
      pooler: the module.
    """

    kind = Pooled
    txjax_head = "`Pooled(Pooler())`"
    output_names = ("pooler_output",)
    ending: str = "Model"
    pooler: str

    def head(self, options: Options, tensors: Tensors) -> Head:
        return Pooled(Pooler())

    def rules(self, head: Any) -> list[Rule]:
        return linear(self.pooler, "pooler")

    def outputs(self, output: Any) -> dict[str, jax.Array]:
        return {"pooler_output": output}


@dataclasses.dataclass(frozen=True, kw_only=True)
class Texts(HeadFormat):
    """Classes of texts.

    Attributes:
      pooler, out: the modules.
      activation: of the pooler.
      key: of this activation in config.json. If None, it is always `activation`.
    """

    kind = Classes
    txjax_head = "`Classes(n, Pooler(activation=...))`"
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
        return Classes(count(self.out, tensors), Pooler(activation=activation))

    def config(self, head: Any) -> dict[str, Any]:
        activation = their_activation(getattr(head.pool, "activation", self.activation))
        return labels(head.classes) | ({} if self.key is None else {self.key: activation})

    def rules(self, head: Any) -> list[Rule]:
        return linear(self.pooler, "pooler") + linear(self.out, "head")


@dataclasses.dataclass(frozen=True, kw_only=True)
class Tokens(HeadFormat):
    """Classes of tokens."""

    kind = TokenClasses
    txjax_head = "`TokenClasses(n)`"
    ending: str = "ForTokenClassification"

    def head(self, options: Options, tensors: Tensors) -> Head:
        return TokenClasses(count("classifier", tensors))

    def config(self, head: Any) -> dict[str, Any]:
        return labels(head.classes)

    def rules(self, head: Any) -> list[Rule]:
        return linear("classifier", "head")


@dataclasses.dataclass(frozen=True, kw_only=True)
class Spans(HeadFormat):
    """The first and the last token of an answer."""

    kind = StartEnd
    txjax_head = "`StartEnd()`"
    output_names = ("start_logits", "end_logits")
    ending: str = "ForQuestionAnswering"

    def rules(self, head: Any) -> list[Rule]:
        return linear("qa_outputs", "head")

    def outputs(self, output: Any) -> dict[str, jax.Array]:
        return {"start_logits": output[:, 0], "end_logits": output[:, 1]}


def count(module: str, tensors: Tensors) -> int:
    """The number of classes of a linear layer; 1 if it is missing, which the rules find."""
    kernel = f"{module}.weight"
    return tensors[kernel].shape[0] if kernel in tensors else 1
