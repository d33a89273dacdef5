"""The experiment of an imported model, so that `evaluate` and `generate` work at once."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from txjax.data import NextTokenWindows, Pairs, SentencePairs, TextWindows, TokenizerFolder
from txjax.eval import Evaluation
from txjax.experiment import Experiment
from txjax.interop.huggingface.options import FILE as CONFIG
from txjax.models.text.bert.bert import Bert
from txjax.models.text.decoder.decoder import Decoder
from txjax.models.text.encoder_decoder.encoder_decoder import EncoderDecoder
from txjax.objectives import MaskedToken, NextToken, Objective
from txjax.types import UserError

_LENGTH = 256


def experiment(model: Any, folder: Path, kept: Path) -> Experiment | None:
    """An experiment with the model on the embedded text and its tokenizer; None if it is not a text model.

    The text is a placeholder, of an encoder-decoder the source and the target: every field can be overridden.

    Args:
      folder: with the tokenizer's files.
      kept: where the experiment finds them, once they are there.

    Raises:
      UserError: a text model without a tokenizer, one of too many tokens, one without the special tokens that it needs.
    """
    if not isinstance(model, Decoder | Bert | EncoderDecoder):
        return None
    tokenizer = TokenizerFolder(path=str(folder.resolve()))
    try:
        tokenizer.check()
    except UserError as error:
        raise error.with_path("--from", "data.tokenizer.path") from None
    roles = tokenizer.roles()
    length = min(_LENGTH, getattr(model.positions, "max_length", _LENGTH) - getattr(model.positions, "first", 0))
    fields: dict[str, Any] = {"length": length, "tokenizer": TokenizerFolder(path=str(kept))}
    objective: Objective
    kind: type[TextWindows] | type[Pairs]
    if tokenizer.vocab() > model.vocab:
        raise UserError("--from", f"a tokenizer.json of at most {model.vocab} tokens", tokenizer.vocab())
    if isinstance(model, Decoder):
        kind, objective = NextTokenWindows, NextToken()
        fields |= {"start": tokenizer.name_of(tokenizer.opening()), "end": tokenizer.name_of(roles.eos)}
    elif isinstance(model, EncoderDecoder):
        kind, objective = Pairs, NextToken()
        start = tokenizer.name_of([tokenizer.setting(CONFIG).get("decoder_start_token_id", roles.pad)])
        end = tokenizer.name_of(roles.eos)
        for name, role in ((start, "begins"), (end, "ends")):
            if name is None:
                raise UserError("--from", f"a tokenizer with a token that {role} a text", f"none in {folder}")
        fields |= dict(source="{text}", target="{text}", source_length=length, start=start, end=end)
    else:
        kind = SentencePairs if getattr(model.head, "next_sentence", None) else TextWindows
        if kind is SentencePairs and model.stack.groups is not None:
            fields["other"] = "swapped"  # as ALBERT is trained
        if roles.mask is None:
            raise UserError("--from", "a tokenizer with a token that hides others", f"none in {folder}")
        objective = MaskedToken(mask_id=roles.mask, vocab=model.vocab)

    data = kind(name="txjax_python_text", split="train", **fields)
    held_out = kind(split="validation", **fields)  # of the same set
    evals: dict[str, Any] = {"valid": Evaluation(data=held_out, max_batches=32)}
    return Experiment(model=model, objective=objective, data=data, evals=evals, batch_size=8)
