"""How a family's files represent a model: what they say of it is compared with the model, so nothing is lost."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from txjax import tree
from txjax.errors import UserError, near_misses
from txjax.interop.huggingface import rules, weights
from txjax.interop.huggingface.catalog import FAMILIES, family_of
from txjax.interop.huggingface.family import Family
from txjax.interop.huggingface.options import Options
from txjax.models.hierarchical import Hierarchical
from txjax.models.model import models_inside
from txjax.nn.attention.attention import Attention
from txjax.nn.attention.mixer import PROJECTIONS

# Fields that concern only training or the machine, for which config.json has no key.
_NOT_WRITTEN = (
    "dtype",
    *(f"stack.{name}" for name in ("remat", "unroll", "microbatches", "rounds")),
    "initial",
    "embedding.std",
    "mlp.dropout",
    "encoder_mlp.dropout",
    "block.drop_path",
    "image_size",
)
# Keys of config.json that are of no family.
TOKENS = ("bos_token_id", "eos_token_id", "pad_token_id", "decoder_start_token_id")
OF_ANY_FAMILY = (*TOKENS, "id2label", "label2id", "problem_type", "mask_ratio", "norm_pix_loss")
# Fields that are by default equal to others.
_FOLLOWS = {"kv_heads": "heads", "encoder_depth": "depth", "encoder_heads": "heads", "encoder_mlp": "mlp"}


def family_for(model: Any, flat: rules.Flat, name: str | None = None, origin: str | None = None) -> Family:
    """The family that writes a model.

    Args:
      flat: its arrays by path.
      name: the `model_type` that is asked for. If None, any may be.
      origin: the `model_type` of the files that the model comes from. If None, or if its family doesn't have the model,
        it is the first family that matches.

    Raises:
      UserError: a model of no family, or not of the one that is asked for.
    """
    usual = family_of(model)
    if name is None:
        return next((family for family in FAMILIES if family.model_type == origin and _has(family, model, flat)), usual)
    names = {family.model_type: family for family in FAMILIES if family is usual or _has(family, model, flat)}
    if name not in names:
        raise UserError("--family", "one that has this model, " + " or ".join(names), name, near_misses(name, names))
    return names[name]


def describe(
    family: Family, model: Any, flat: rules.Flat, extra: Mapping[str, Any] | None = None
) -> tuple[dict[str, Any], Any]:
    """The config.json of a model, and the model that it describes.

    Args:
      flat: the model's arrays by path.
      extra: further keys; of another family's config.json those that any model may have.

    Raises:
      UserError: a field of the model that the family can't represent.
    """
    entries = family.config(model, flat)
    extra = dict(extra or {})
    if extra.get("model_type") not in (None, family.model_type):
        extra = {key: extra[key] for key in OF_ANY_FAMILY if key in extra}
    if len(extra.get("id2label", ())) == len(entries.get("id2label", ())):
        entries = {key: value for key, value in entries.items() if key not in ("id2label", "label2id")}
    entries |= {"model_type": family.model_type, "dtype": "float32"}
    config = merged(merged(family.unless_given, extra), entries)
    config.pop("torch_dtype", None)
    like = family.model(Options(config), tensors_of(family, model, flat))
    compare(model, like, family)
    return config, like


def merged(values: Mapping[str, Any], new: Mapping[str, Any]) -> dict[str, Any]:
    """Entries of config.json with new ones, key by key also in the objects of a model's parts, `text_config`."""

    def value(key: str) -> Any:
        parts = [entries[key] for entries in (values, new) if key in entries]
        in_parts = key.endswith("_config") and all(isinstance(part, Mapping) for part in parts)
        return merged(*parts) if in_parts and len(parts) == 2 else parts[-1]

    return {key: value(key) for key in {**values, **new}}


def _has(family: Family, model: Any, flat: rules.Flat) -> bool:
    """Whether a family has a model."""
    if not family.represents(model):
        return False
    try:
        describe(family, model, flat)
    except UserError:
        return False
    return True


def tensors_of(family: Family, model: Any, flat: rules.Flat) -> dict[str, weights.Tensor]:
    """Our arrays as their tensors, under the names of the architecture."""
    constants = family.constants(model)
    fixed = {name: weights.Tensor(value.shape, lambda value=value: value) for name, value in constants.items()}
    return fixed | rules.scatter(family.rules(model), flat)


def compare(model: Any, like: Any, family: Family) -> None:
    """Raises UserError if `like`, the model that the written files describe, computes something else."""
    ours = _resolved_fields(model)
    theirs = _resolved_fields(like)
    for name, here, there in tree.diff(ours, theirs):
        zeros = "use_bias" in name and there
        field = name.removeprefix(_inner(model, name))
        if not zeros and not field.startswith(_NOT_WRITTEN) and not name.startswith(family.not_written):
            hint = f"Hugging Face's {family.model_type} has nothing else"
            raise UserError(f"config.model.{name}", repr(there), here, hint=hint)


def _inner(model: Any, path: str) -> str:
    """`encoder.` of `encoder.mlp` if that field is a model; nothing for a field of the model itself."""
    return next((f"{name}." for name, _ in models_inside(model) if path.startswith(f"{name}.")), "")


def _resolved_fields(model: Any) -> Any:
    """The model's fields, with defaults that follow from other fields filled in; of models inside it too."""
    fields = tree.to_json(model)
    fields |= {name: _resolved_fields(inner) for name, inner in models_inside(model)}
    sizes = _sizes(model)
    for entries, attention in _attentions(model, fields):
        entries["head_size"] = _of_stages(attention.head_size or width // heads for width, heads in sizes)
        entries["use_bias"] = {projection: attention.has_bias(projection) for projection in PROJECTIONS}
        del entries["biases"]
    widths = [width for width, _ in sizes]
    for name in ("mlp", "encoder_mlp"):
        if (mlp := getattr(model, name, None)) is not None:
            written = {key: value for key, value in fields[name].items() if key not in ("ratio", "multiple_of")}
            fields[name] = written | {"hidden": _of_stages(mlp.hidden_size(width) for width in widths)}
    for name, other in _FOLLOWS.items():
        if name in fields and fields[name] is None:
            fields[name] = fields[other]
    return fields


def _sizes(model: Any) -> list[tuple[int, int]]:
    """Width and heads of the stages, or of the stacks if they differ; of other models, the model's if it has layers."""
    if isinstance(model, Hierarchical):
        return [(stage.width, stage.heads) for stage in model.stages]
    if not hasattr(model, "heads"):
        return []
    heads = dict.fromkeys([model.heads, getattr(model, "encoder_heads", None) or model.heads])
    return [(model.width, count) for count in heads]


def _of_stages(numbers: Iterable[int]) -> int | list[int]:
    """The numbers of the stages; of a model without stages, its own."""
    values = list(numbers)
    return values if len(values) > 1 else values[0]


def _attentions(model: Any, fields: dict[str, Any]) -> Iterator[tuple[dict[str, Any], Attention]]:
    """The attentions in the model's fields, also those that take turns, each with its own fields."""
    for field in tree.config_fields(model):
        value = getattr(model, field.name)
        entries = fields[field.name]
        pairs = zip(entries, value, strict=True) if isinstance(value, tuple) else [(entries, value)]
        yield from (
            (attention_fields, attention) for attention_fields, attention in pairs if isinstance(attention, Attention)
        )
