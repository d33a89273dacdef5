"""The language model of another run in the beam of `txjax generate`."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from txjax.errors import UserError

if TYPE_CHECKING:
    from txjax.decoding import Prompts, ShallowFusion
    from txjax.eval.audio.language_run import LanguageRun

RUN = "--lm"
WEIGHT = "--lm_weight"


def add_language_flags(parser: argparse.ArgumentParser) -> None:
    """Adds the flags that name the run and the weight of its score."""
    meaning = "WORKDIR[@STEP] of a language model with the same tokens, whose score --beam adds to that of each token"
    parser.add_argument(RUN, metavar="RUN", help=meaning)
    parser.add_argument(WEIGHT, type=float, help="of its log-probabilities; default 0.3")


def fusion_of(flags: argparse.Namespace) -> ShallowFusion | None:
    """What the flags describe; None without them. Raises UserError for one without another, or out of range."""
    from txjax.decoding import ShallowFusion
    from txjax.tree import check_fields

    if flags.lm is None:
        if flags.lm_weight is not None:
            raise UserError(WEIGHT, f"{RUN}=RUN too", flags.lm_weight)
        return None
    if flags.beam is None:
        raise UserError(RUN, "--beam too", flags.lm)
    fusion = ShallowFusion(flags.lm) if flags.lm_weight is None else ShallowFusion(flags.lm, flags.lm_weight)
    try:
        check_fields(fusion, RUN)
    except UserError as error:
        raise error.with_path(WEIGHT, f"{RUN}.weight") from None
    return fusion


def open_language(
    flags: argparse.Namespace, fusion: ShallowFusion | None, form: Prompts, end: tuple[int, ...]
) -> LanguageRun | None:
    """The run of the language model, whose tokens are those of the prompts' tokenizer; None without one or a weight.

    Args:
      end: the tokens that end a text.

    Raises:
      UserError: the prompts are the beginnings of texts, or the run doesn't suit.
    """
    from txjax.decoding import Beginnings
    from txjax.eval.audio.language_run import LanguageRun
    from txjax.modules import trusted_modules

    if fusion is None:
        return None
    if isinstance(form, Beginnings):
        raise UserError(RUN, "a run of a model that reads audio or a source", str(flags.workdir))
    language = LanguageRun.open(RUN, fusion, trusted_modules(flags.trust))
    language.check_tokens(form.tokenizer, end)
    language.check_length(1 + flags.length)
    return language if fusion.weight else None
