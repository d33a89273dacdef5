"""Checks of a model against the data that it is trained on or evaluated with: tokens, languages, rates, classes."""

from collections.abc import Iterable
from typing import Any

from txjax.data import Dataset
from txjax.data.loading.limits import find_size
from txjax.errors import UserError
from txjax.objectives.image_token_checks import check_image_tokens
from txjax.tree import walk


def check_model_data(model: Any, data: Dataset, field: str = "config.data") -> None:
    """Raises UserError if the model doesn't read the data's languages, sampling rate, vocabulary or image tokens."""
    check_languages(model, data, field)
    check_rate(model, data, field)
    check_vocab(model, data, field)
    check_image_tokens(model, data, field)


def check_rate(model: Any, data: Dataset, field: str = "config.data") -> None:
    """Raises UserError if the data's waveforms have another sampling rate than the model's front end."""
    front_end = find_size(model, "front_end.rate")
    for path, node in walk(data, field):
        rate = getattr(node, "rate", None)
        if front_end is None or not isinstance(node, Dataset) or rate is None or rate == front_end[1]:
            continue
        hint = "recordings of other rates are resampled to it"
        raise UserError(f"{path}.rate", f"{front_end[1]}, that of config.model.{front_end[0]}", rate, hint=hint)


def check_vocab(model: Any, data: Dataset, field: str = "config.data") -> None:
    """Raises UserError if the data has tokens outside the model's vocabulary, or that of its source."""
    vocab = data.vocab()
    table = find_size(model, "vocab")
    if vocab is not None and "transcript" in data.spec():
        table = find_size(model, "head.classes") or table
    target_vocab = data.source_vocab()
    source = getattr(model, "source_vocab", None)
    if vocab is None or table is None:
        return
    path, known = table
    if known < vocab:
        whose = "tokens" if target_vocab is None else "target tokens"
        raise UserError(f"config.model.{path}", f"at least {vocab}, the {whose} of {field}", known)
    if target_vocab is not None and source is None:
        expected = f"{target_vocab}, the source tokens of {field}, whose source_tokenizer is another one"
        raise UserError("config.model.source_vocab", expected, source)
    if source is not None and source < (target_vocab or vocab):
        raise UserError(
            "config.model.source_vocab", f"at least {target_vocab or vocab}, the source tokens of {field}", source
        )


def check_languages(model: Any, data: Dataset, field: str = "config.data") -> None:
    """Raises UserError if the data has more languages than the model has vectors for, other ones in a part, or none."""
    known = getattr(model, "languages", None)
    languages = languages_of(data, field)
    for names in languages:
        if known is not None and known < len(names):
            expected = f"at least {len(names)}, the languages of {field}: {', '.join(names)}"
            raise UserError("config.model.languages", expected, known)
    if known is not None and not languages and data.vocab() is not None and "tokens" in data.spec():
        expected = f"examples with the ids of their languages, since config.model.languages is {known}"
        raise UserError(field, expected, type(data).__name__, hint="InLanguage(data, ...) gives them")


def languages_of(config: Any, field: str = "config") -> set[tuple[str, ...]]:
    """The names of the languages of the data sets in a config, in the order of their ids: at most one tuple.

    Raises:
      UserError: two data sets have other names, or another order.
    """
    paths_by_languages = {
        names: path
        for path, node in walk(config, field)
        if isinstance(names := getattr(node, "languages", None), tuple)
    }
    if len(paths_by_languages) > 1:
        one, other = list(paths_by_languages)[:2]
        raise UserError(
            f"{paths_by_languages[other]}.languages",
            f"those of {paths_by_languages[one]}: {', '.join(one)}",
            ", ".join(other),
        )
    return set(paths_by_languages)


def check_special_tokens(field: str, ids: Iterable[int], data: Dataset, needed: str) -> None:
    """Raises UserError if the data's tokenizer encodes text to one of these ids.

    Args:
      field: that has the ids.
      needed: what they must be, for the message.
    """
    tokenizer: Any = getattr(data, "tokenizer", None)
    special = None if tokenizer is None else tokenizer.special_ids()
    if special is None:
        return
    if ordinary := [i for i in ids if i not in special]:
        what = (
            "a token of text" if ordinary[0] < tokenizer.vocab() else "which the tokenizer of config.data doesn't have"
        )
        hint = "the tokenizer's special('NAME') is the id of such a token"
        raise UserError(field, f"{needed}, which text is never encoded to", f"{ordinary[0]}, {what}", hint=hint)


def check_classes(model: Any, data: Dataset) -> None:
    """Raises UserError if the data has more classes than the model's head."""
    classes = getattr(data, "classes", None)
    head = find_size(model, "head.classes")
    if classes is not None and head is not None and head[1] < classes:
        raise UserError(f"config.model.{head[0]}", f"at least {classes}, the classes of config.data", head[1])
