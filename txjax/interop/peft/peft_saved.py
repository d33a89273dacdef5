"""Parameters of the base model that an adapter of peft replaces, such as a new head: its `modules_to_save`."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Any

import numpy as np

from txjax.errors import UserError
from txjax.interop.huggingface.rules import Flat, Rule, assign, scatter
from txjax.interop.huggingface.weights import Tensor
from txjax.models.text.decoder.decoder import Decoder
from txjax.models.text.encoder_decoder.encoder_decoder import EncoderDecoder

CAUSAL = "CAUSAL_LM"
PAIRS = "SEQ_2_SEQ_LM"
# By a part of the architecture's name, peft's task, and the ends of names of modules that it then trains by itself.
_TASKS = {
    "ForSequenceClassification": ("SEQ_CLS", ("classifier", "score")),
    "ForTokenClassification": ("TOKEN_CLS", ("classifier", "score")),
    "ForQuestionAnswering": ("QUESTION_ANS", ("qa_outputs",)),
}
_TIED = "lm_head.weight"  # the one copy of a table that peft keeps tied


def task(model: Any, architecture: str) -> tuple[str | None, tuple[str, ...]]:
    """peft's task for an architecture, if it has one, and the ends of names of modules that it trains by itself."""
    if isinstance(model, Decoder | EncoderDecoder):
        return CAUSAL if isinstance(model, Decoder) else PAIRS, ()
    return next((entry for part, entry in _TASKS.items() if part in architecture), (None, ()))


def class_of_task(task: str | None) -> tuple[str, tuple[str, ...]]:
    """The part of the names of a task's classes, and the ends of names of modules that peft trains by itself for it.

    Both are empty for the tasks of models with the head of pretraining, or none.
    """
    return next(((part, ends) for part, (name, ends) in _TASKS.items() if name == task), ("", ()))


def read(where: str, rules: list[Rule], copies: Mapping[str, str], tensors: dict[str, Tensor], base: Flat) -> Flat:
    """Our parameters that the tensors replace, by path.

    Args:
      copies: names of tensors that are copies of another one.

    Raises:
      UserError: a tensor that is none of the model's, or of another shape; a table and copies that differ.
    """
    left = dict(tensors)
    flat = Flat()
    originals = scatter(rules, base)
    for copy, original in copies.items():
        if copy in originals or not {copy, original} & left.keys():
            continue
        one = left.pop(copy, None)
        other = left.get(original, originals[original])
        if one is None or one.shape != other.shape or not np.array_equal(one.read(), other.read()):
            expected = f"{copy} like {original}, since this model has them once"
            raise UserError(where, expected, "none" if one is None else "other numbers", hint="ensure_weight_tying")
    for rule in rules:
        layers = range(len(base[rule.param_paths[0]])) if "{}" in rule.hf_name else (None,)
        for layer in layers:
            if (name := rule.name(layer)) in left:
                flat |= {path: base[path].copy() for path in rule.param_paths if path not in flat}
                parts = [flat[path] if layer is None else flat[path][layer] for path in rule.param_paths]
                assign(rule, parts, name, left.pop(name))
    if left:
        raise UserError(where, "an adapter of modules of this model", min(left), hint=f"{len(left)} such tensors")
    return flat


def saved_modules(
    rules: list[Rule],
    copies: Mapping[str, str],
    heads: Collection[str],
    trained: Collection[str],
    adapted: Iterable[str],
    params: Flat,
) -> tuple[list[str], dict[str, Tensor], bool]:
    """The names of modules and the tensors of the base's own parameters that were trained too, and of whole heads.

    peft replaces all modules whose names end as given, with all of their tensors; so the names are whole, and the
    tensors of all such modules are written.

    Args:
      copies: names of tensors that are copies of another one.
      heads: ends of names of modules that are written in any case.
      trained: paths of the trained parameters.
      adapted: names of the adapter's tensors.

    Returns:
      Names, tensors, and whether a table is among them whose copy is to stay tied.

    Raises:
      UserError: a parameter that Hugging Face's model hasn't, or that it can't have beside the adapter.
    """
    if left := set(trained) - {path for rule in rules for path in rule.param_paths}:
        raise UserError("config.optimizer.groups", "an adapter and modules of Hugging Face's model", min(left))
    tensors = scatter(rules, params)
    changed = scatter([rule for rule in rules if set(rule.param_paths) & set(trained)], params)
    names = {name.rpartition(".")[0] for name in changed}
    tables = {
        copy: original
        for copy, original in copies.items()
        if original in changed and copy not in tensors and not ends_in(copy, {*names, *heads})
    }
    if tables and set(tables) != {_TIED}:
        raise UserError("config.optimizer.groups", "no tied table, which peft can't train", min(tables.values()))
    tensors |= {copy: tensors[original] for copy, original in copies.items() if original in tensors}
    names |= {name.rpartition(".")[0] for name in tables}
    names = {name for name in names if not ends_in(name, {*names, *heads} - {name})}
    if twice := sorted(name for name in adapted if ends_in(name, {*names, *heads})):
        raise UserError("config.model.adapter.paths", "none of the modules that peft trains whole", twice[0])
    kept = {name: tensor for name, tensor in tensors.items() if ends_in(name, {*names, *heads})}
    return sorted(names), kept, bool(tables)


def ends_in(name: str, ends: Collection[str]) -> bool:
    """Whether a module or tensor is, or is inside, a module whose name ends so."""
    steps = name.split(".")
    above = [".".join(steps[: i + 1]) for i in range(len(steps))]
    return any(module.endswith(end) for module in above for end in ends)
