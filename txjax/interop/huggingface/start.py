"""What an imported model is a run of, so that it can be evaluated and can write at once."""

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
    """A run of the model on the embedded text, by its tokenizer; None where it has none or is no model of text.

    The text is a stand-in: every field is there to be changed.
    """
    if not tokenizer_json.is_file() or not isinstance(model, Decoder | Bert):
        return None
    tokenizer = TokenizerFile(path=str(tokenizer_json.resolve()))
    length = min(_LENGTH, getattr(model.positions, "max_length", _LENGTH))
    objective: Objective
    kind: type[TextWindows]
    try:
        if tokenizer.vocab() > model.vocab:
            return None
        if isinstance(model, Decoder):
            kind, objective = NextTokenWindows, NextToken()
        else:
            kind = SentencePairs if model.next_sentence else TextWindows
            objective = MaskedToken(mask_id=tokenizer.special("[MASK]"), vocab=model.vocab)
    except UserError:
        return None

    data = kind(name="txjax_python_text", split="train", length=length, tokenizer=tokenizer)
    held_out = kind(split="validation", length=length, tokenizer=tokenizer)  # of the same set
    evals: dict[str, Any] = {"valid": Evaluation(data=held_out, max_batches=32)}
    return Experiment(model=model, objective=objective, data=data, evals=evals, batch_size=8)
