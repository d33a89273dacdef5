"""The families, and which of them a config.json or a model is of."""

from __future__ import annotations

import logging
from typing import Any

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
from txjax.interop.huggingface.family import Family
from txjax.interop.huggingface.options import FILE, Options
from txjax.types import UserError, near_misses

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


def class_of(options: Options) -> tuple[Family, Options]:
    """The family of a config.json, and its options with one class: if they have none, that with the fewest heads."""
    kind, named = options.values.get("model_type"), options.values.get("architectures") or ()
    known = {family.model_type: family for family in FAMILIES}
    if not isinstance(kind, str) or kind not in known:
        near = near_misses(str(kind)[:100], known)
        raise UserError(f"{FILE}: model_type", "one of " + ", ".join(known), kind, near)
    family = known[kind]
    if not named:
        named = family.architectures[-1:]
        log.warning("%s: no architectures; it is read as a %s", FILE, named[0])
    if not isinstance(named, list | tuple) or len(named) != 1 or named[0] not in family.architectures:
        got = ", ".join(map(str, named)) if isinstance(named, list) else named
        raise options.refuse("architectures", "one of " + ", ".join(family.architectures), got)
    return family, options.with_values(options.values | {"architectures": list(named)})


def family_of(model: Any) -> Family:
    """The family of a model. Raises UserError if it is of none."""
    for family in FAMILIES:
        if family.matches(model):
            return family
    known = ", ".join(family.model_type for family in FAMILIES)
    raise UserError("config.model", f"a model that Hugging Face has too ({known})", type(model).__name__)
