"""The experiment of an imported model, so that `evaluate` and `generate` work at once."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from txjax.data import NextTokenWindows, SentencePairs, TextWindows, TokenizerFile
from txjax.eval import Evaluation
from txjax.experiment import Experiment
from txjax.models import Bert, Decoder
from txjax.objectives import MaskedToken, NextToken, Objective
from txjax.types import UserError

_LENGTH = 256


def experiment(model: Any, tokenizer_json: Path) -> Experiment | None:
    """An experiment with the model on the embedded text and its tokenizer; None if it is not a text model.

    The text is a placeholder: every field can be overridden.

    Raises:
      UserError: a text model without a tokenizer, or with one of too many tokens.
    """
    if not isinstance(model, Decoder | Bert):
        return None
    if not tokenizer_json.is_file():
        hint = "transformers' AutoTokenizer.from_pretrained(FOLDER).save_pretrained(FOLDER) writes one"
        raise UserError("--from", "a tokenizer.json, to read and write text", "a folder without", hint=hint)
    tokenizer = TokenizerFile(path=str(tokenizer_json.resolve()))
    length = min(_LENGTH, getattr(model.positions, "max_length", _LENGTH))
    objective: Objective
    kind: type[TextWindows]
    if tokenizer.vocab() > model.vocab:
        raise UserError("--from", f"a tokenizer.json of at most {model.vocab} tokens", tokenizer.vocab())
    if isinstance(model, Decoder):
        kind, objective = NextTokenWindows, NextToken()
    else:
        kind = SentencePairs if getattr(model.head, "next_sentence", None) else TextWindows
        objective = MaskedToken(mask_id=tokenizer.special("[MASK]"), vocab=model.vocab)

    data = kind(name="txjax_python_text", split="train", length=length, tokenizer=tokenizer)
    held_out = kind(split="validation", length=length, tokenizer=tokenizer)  # of the same set
    evals: dict[str, Any] = {"valid": Evaluation(data=held_out, max_batches=32)}
    return Experiment(model=model, objective=objective, data=data, evals=evals, batch_size=8)
