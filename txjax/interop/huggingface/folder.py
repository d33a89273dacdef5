"""Reads a folder into a txjax model and its weights, and writes one."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import jax
import numpy as np
from flax import traverse_util
from flax.core import meta

from txjax import tree
from txjax.interop.huggingface import rules, weights
from txjax.interop.huggingface.families.albert import Albert
from txjax.interop.huggingface.families.bert import Bert
from txjax.interop.huggingface.families.bit import BiT
from txjax.interop.huggingface.families.convnext import ConvNeXt
from txjax.interop.huggingface.families.cvt import CvT
from txjax.interop.huggingface.families.deberta import DebertaV1, DebertaV2
from txjax.interop.huggingface.families.detr import DETR
from txjax.interop.huggingface.families.distilbert import DistilBert
from txjax.interop.huggingface.families.electra import Electra
from txjax.interop.huggingface.families.gpt2 import GPT2
from txjax.interop.huggingface.families.gpt_neo import GPTNeo
from txjax.interop.huggingface.families.llama import Llama
from txjax.interop.huggingface.families.mae import MAE
from txjax.interop.huggingface.families.marian import Marian
from txjax.interop.huggingface.families.poolformer import PoolFormer
from txjax.interop.huggingface.families.qwen import Qwen2, Qwen3
from txjax.interop.huggingface.families.resnet import ResNet
from txjax.interop.huggingface.families.roberta import Roberta, XLMRoberta
from txjax.interop.huggingface.families.roformer import RoFormer
from txjax.interop.huggingface.families.sam import SAM
from txjax.interop.huggingface.families.swin import Swin
from txjax.interop.huggingface.families.t5 import T5
from txjax.interop.huggingface.families.vit import ViT
from txjax.interop.huggingface.families.xlm import XLM
from txjax.interop.huggingface.family import Family, arrays
from txjax.interop.huggingface.options import FILE, Options
from txjax.io.files import replace_text
from txjax.models.hierarchical import Hierarchical
from txjax.models.model import models_inside
from txjax.nn.attention.attention import PROJECTIONS, Attention
from txjax.types import PyTree, UserError, near_misses

log = logging.getLogger("txjax")
# The first that matches a model writes it. Of BERT's relatives one matches at most; if none does, BERT, the last, does.
FAMILIES: tuple[Family, ...] = (
    XLM(),
    RoFormer(),
    Albert(),
    DistilBert(),
    Roberta(),
    XLMRoberta(),
    DebertaV1(),
    DebertaV2(),
    Electra(),
    Bert(),
    GPTNeo(),
    GPT2(),
    Qwen2(),
    Qwen3(),
    Llama(),
    MAE(),
    Marian(),
    T5(),
    ViT(),
    Swin(),
    ConvNeXt(),
    PoolFormer(),
    CvT(),
    BiT(),
    ResNet(),
    DETR(),
    SAM(),
)
_SHARD_BYTES = 5 * 10**9
# Fields that concern only training or the machine, for which config.json has no key.
_NOT_WRITTEN = (
    "dtype",
    *(f"stack.{name}" for name in ("remat", "unroll", "microbatches", "rounds")),
    "initial",
    "embedding.std",
    "mlp.dropout",
    "block.drop_path",
    "image_size",
)
_FOLLOWS = {"kv_heads": "heads", "encoder_depth": "depth"}  # fields that are by default equal to others


def load(directory: Path | str) -> tuple[Any, PyTree]:
    """Reads a folder with config.json and safetensors. Returns the model and its variables, numpy float32.

    Raises:
      UserError: an architecture or an option that txjax doesn't have (named by its key), weights that are pickles,
        tensors that are missing, unknown or of another shape.
    """
    directory = Path(directory)
    family, options = _class(Options.read(directory))
    options, names, tensors = _without_copies(family, options, weights.read(directory))
    model = family.model(options, tensors)
    tree.check_fields(model, "config.model")
    for name in family.constants(model):
        tensors.pop(name, None)
    flat = rules.gather(family.rules(model), _shapes(family, model, options), tensors, names.heads)
    params = traverse_util.unflatten_dict(flat, sep="/")
    state = {name: params.pop(name) for name in family.state}
    return model, {"params": params, **state}


def save(
    model: Any,
    variables: PyTree,
    directory: Path | str,
    extra: Mapping[str, Any] | None = None,
    shard_bytes: int = _SHARD_BYTES,
) -> None:
    """Writes config.json and float32 safetensors that transformers' `from_pretrained` loads.

    Missing biases are written as zeros. Fields that concern only training (initialisation, rematerialisation,
    dropout inside the MLP) are not written.

    Args:
      variables: numpy or jax arrays.
      extra: further keys of config.json, such as `id2label`; keys of the architecture come from the model.
      shard_bytes: largest size of a file, except for a single larger tensor.

    Raises:
      UserError: a field of the model that the format can't represent; variables of other collections than the
        format's; a folder that already has weights.
    """
    directory, family = Path(directory), family_of(model)
    if set(variables) != {"params", *family.state}:
        expected = " and ".join(("parameters", *family.state)) + " alone" * (not family.state)
        got = ", ".join(sorted(set(variables) - {"params"})) or "parameters alone"
        raise UserError("config.model", f"a model with {expected}", got)
    flat = {path: np.asarray(leaf) for path, leaf in _flat(variables).items()}
    own, extra = family.config(model, flat), dict(extra or {})
    if len(extra.get("id2label", ())) == len(own.get("id2label", ())):
        own = {key: value for key, value in own.items() if key not in ("id2label", "label2id")}
    config = {**family.unless_given, **extra, **own, "model_type": family.model_type, "dtype": "float32"}
    config.pop("torch_dtype", None)
    options = Options(config)
    like = family.model(options, _tensors(family, model, flat, options))
    _compare(model, like, family)
    zeros = {path: np.zeros(shape) for path, shape in _shapes(family, like, options).items() if path.endswith("bias")}
    tensors = _tensors(family, like, zeros | flat, options)
    weights.write(directory, tensors, shard_bytes)
    replace_text(directory / FILE, json.dumps(config, indent=2) + "\n")


def forward(model: Any, variables: PyTree, inputs: Mapping[str, Any]) -> dict[str, jax.Array]:
    """The outputs of the reference in evaluation, with inputs and outputs under its names.

    A pure function, so `jax.jit(functools.partial(forward, model))` works.

    Raises:
      UserError: a model of no family, or an unknown input.
    """
    family = family_of(model)
    return family.forward(model, meta.unbox(variables), arrays(family, inputs))


def _class(options: Options) -> tuple[Family, Options]:
    """The family of a config.json, and its options with one class: if they have none, that with the fewest heads."""
    kind, named = options.values.get("model_type"), options.values.get("architectures") or ()
    known = {family.model_type: family for family in FAMILIES}
    if kind not in known:
        near = near_misses(str(kind), known)
        raise UserError(f"{FILE}: model_type", "one of " + ", ".join(known), kind, near)
    family = known[kind]
    if not named:
        named = family.architectures[-1:]
        log.warning("%s: no architectures; it is read as a %s", FILE, named[0])
    if len(named) != 1 or named[0] not in family.architectures:
        raise UserError(f"{FILE}: architectures", "one of " + ", ".join(family.architectures), ", ".join(named))
    return family, Options(options.values | {"architectures": list(named)})


def _without_copies(
    family: Family, options: Options, tensors: Mapping[str, weights.Tensor]
) -> tuple[Options, rules.Names, dict[str, weights.Tensor]]:
    """The tensors under current names, without the copies that the options have; and the options and names for them.

    As in the reference, tensors that config.json ties are untied if they differ in the file.

    Raises:
      UserError: a copy that differs from its original in a model that has no untied form.
    """
    names = family.names(options)
    current = rules.tidy(tensors, names)
    for copy in rules.unequal(current, names.copies):
        if not names.untied:
            hint = f"{FILE} ties them, and txjax's {family.model_type} has no untied form"
            raise UserError(copy, f"the same numbers as {names.copies[copy]}", "others", hint=hint)
        entries = ", ".join(f"{key}: {json.dumps(value)}" for key, value in names.untied.items())
        log.warning("%s differs from %s, though %s ties them; read as %s", copy, names.copies[copy], FILE, entries)
        options = Options({**options.values, **names.untied})
    names = family.names(options)
    return options, names, {x: current[x] for x in current if names.copies.get(x) not in current}


def family_of(model: Any) -> Family:
    """The family of a model. Raises UserError if it is of none."""
    for family in FAMILIES:
        if family.matches(model):
            return family
    known = ", ".join(family.model_type for family in FAMILIES)
    raise UserError("config.model", f"a model that Hugging Face has too ({known})", type(model).__name__)


def _shapes(family: Family, model: Any, options: Options) -> dict[str, tuple[int, ...]]:
    """The shapes of our arrays by path."""
    example = family.example(model, options)
    drawn = jax.eval_shape(model.init, jax.eval_shape(lambda: jax.random.key(0)), **example)
    return {path: leaf.shape for path, leaf in _flat({name: drawn[name] for name in ("params", *family.state)}).items()}


def _flat(variables: PyTree) -> dict[str, Any]:
    """The leaves by path, below `params` or, of other collections, from the collection's name on."""
    own = dict(meta.unbox(variables))
    return traverse_util.flatten_dict(own.pop("params") | own, sep="/")


def _tensors(family: Family, model: Any, flat: rules.Flat, options: Options) -> dict[str, weights.Tensor]:
    """Our arrays as their tensors, under the names of the architecture."""
    constants = family.constants(model)
    fixed = {name: weights.Tensor(value.shape, lambda value=value: value) for name, value in constants.items()}
    return fixed | rules.scatter(family.rules(model), flat)


def _compare(model: Any, like: Any, family: Family) -> None:
    """Raises UserError if `like`, the model that the written files describe, computes something else."""
    ours, theirs = _resolved_fields(model), _resolved_fields(like)
    for name, here, there in tree.diff(ours, theirs):
        zeros, own = "use_bias" in name and there, name.removeprefix(_inner(model, name))
        if not zeros and not own.startswith(_NOT_WRITTEN) and not name.startswith(family.not_written):
            hint = f"Hugging Face's {family.model_type} has nothing else"
            raise UserError(f"config.model.{name}", repr(there), here, hint=hint)


def _inner(model: Any, path: str) -> str:
    """`encoder.` of `encoder.mlp` if that field is a model; nothing for a field of the model itself."""
    return next((f"{name}." for name, _ in models_inside(model) if path.startswith(f"{name}.")), "")


def _resolved_fields(model: Any) -> Any:
    """The model's fields, with defaults that follow from other fields filled in; of models inside it too."""
    fields = tree.to_json(model)
    fields |= {name: _resolved_fields(inner) for name, inner in models_inside(model)}
    for name, other in _FOLLOWS.items():
        if name in fields and fields[name] is None:
            fields[name] = fields[other]
    sizes = model.stages if isinstance(model, Hierarchical) else (model,)
    for found, attention in _attentions(model, fields):
        found["head_size"] = _of_stages(attention.head_size or size.width // size.heads for size in sizes)
        found["use_bias"] = {each: attention.has_bias(each) for each in PROJECTIONS}
        del found["biases"]
    fields["mlp"] = {k: v for k, v in fields["mlp"].items() if k not in ("ratio", "multiple_of")}
    fields["mlp"]["hidden"] = _of_stages(model.mlp.hidden_size(size.width) for size in sizes)
    return fields


def _of_stages(numbers: Iterable[int]) -> int | list[int]:
    """The numbers of the stages; of a model without stages, its own."""
    found = list(numbers)
    return found if len(found) > 1 else found[0]


def _attentions(model: Any, fields: dict[str, Any]) -> Iterator[tuple[dict[str, Any], Attention]]:
    """The attentions in the model's fields, also those that take turns, each with its own fields."""
    for field in tree.config_fields(model):
        value, found = getattr(model, field.name), fields[field.name]
        pairs = zip(found, value, strict=True) if isinstance(value, tuple) else [(found, value)]
        yield from ((own, each) for own, each in pairs if isinstance(each, Attention))
