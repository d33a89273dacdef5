"""The experiment of an imported model, so that `evaluate` and `generate` work at once."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from txjax.data import NextTokenWindows, Pairs, SentencePairs, TextWindows, TokenizerFile
from txjax.eval import Evaluation
from txjax.experiment import Experiment
from txjax.models import Bert, Decoder, EncoderDecoder
from txjax.nn import Counted
from txjax.objectives import MaskedToken, NextToken, Objective
from txjax.types import UserError

_LENGTH = 256
_START, _END = "<pad>", "</s>"  # T5's and Marian's names
_ROBERTAS_MASK = "<mask>"


def experiment(model: Any, tokenizer_json: Path) -> Experiment | None:
    """An experiment with the model on the embedded text and its tokenizer; None if it is not a text model.

    The text is a placeholder, of an encoder-decoder the source and the target: every field can be overridden.

    Raises:
      UserError: a text model without a tokenizer, one of too many tokens, one without the start or the end token.
    """
    if not isinstance(model, Decoder | Bert | EncoderDecoder):
        return None
    if not tokenizer_json.is_file():
        hint = "transformers' AutoTokenizer.from_pretrained(FOLDER).save_pretrained(FOLDER) writes one"
        raise UserError("--from", "a tokenizer.json, to read and write text", "a folder without", hint=hint)
    tokenizer = TokenizerFile(path=str(tokenizer_json.resolve()))
    length = min(_LENGTH, getattr(model.positions, "max_length", _LENGTH) - getattr(model.positions, "first", 0))
    fields: dict[str, Any] = {"length": length, "tokenizer": tokenizer}
    objective: Objective
    kind: type[TextWindows] | type[Pairs]
    if tokenizer.vocab() > model.vocab:
        raise UserError("--from", f"a tokenizer.json of at most {model.vocab} tokens", tokenizer.vocab())
    if isinstance(model, Decoder):
        kind, objective = NextTokenWindows, NextToken()
    elif isinstance(model, EncoderDecoder):
        kind, objective = Pairs, NextToken()
        for name in (_START, _END):
            tokenizer.special(name)
        fields |= dict(source="{text}", target="{text}", source_length=length, start=_START, end=_END)
    else:
        kind = SentencePairs if getattr(model.head, "next_sentence", None) else TextWindows
        if kind is SentencePairs and model.stack.groups is not None:
            fields["other"] = "swapped"  # as ALBERT is trained
        mask = _ROBERTAS_MASK if isinstance(model.positions, Counted) else "[MASK]"
        objective = MaskedToken(mask_id=tokenizer.special(mask), vocab=model.vocab)

    data = kind(name="txjax_python_text", split="train", **fields)
    held_out = kind(split="validation", **fields)  # of the same set
    evals: dict[str, Any] = {"valid": Evaluation(data=held_out, max_batches=32)}
    return Experiment(model=model, objective=objective, data=data, evals=evals, batch_size=8)
