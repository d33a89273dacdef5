"""The contract of every model and objective of the package. New files are found and tested automatically."""

import dataclasses
import importlib
import inspect
import itertools
import pkgutil
from collections.abc import Iterator
from types import ModuleType
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax.core import meta

import txjax.models
import txjax.objectives
from txjax.data.keys import BATCH_KEYS, part_of
from txjax.models.hierarchical import Hierarchical, Stage
from txjax.models.model import Model
from txjax.models.sub_transformer import Part
from txjax.models.text.bert.bert import Bert
from txjax.models.vision.max_vit.max_vit import MaxViTStem
from txjax.models.vision.meta_former.meta_former import MetaFormer
from txjax.models.vision.vit.vit import ViT
from txjax.models.vision.vq_tokenizer.vq_tokenizer import VQTokenizer
from txjax.nn import (
    MLP,
    Classes,
    ConvEmbedding,
    DepthwiseConv,
    GroupNorm,
    GroupNormRelu,
    Head,
    Heads,
    MeanTokens,
    NormedConvEmbedding,
    ObjectBoxes,
    PatchEmbedding,
    ReplacedTokens,
    StartEnd,
    Tied,
    TokenClasses,
    WindowAttention,
)
from txjax.objectives import Classification, MaskedToken, NextToken, Objective, Several, missing_keys
from txjax.types import UserError

from helpers.arrays import filled, on_jax
from selection import Item, describe_tree, per_family

pytestmark = pytest.mark.claim(
    "Models and objectives",
    "float32 parameters with named axes, sums independent of order, padding and microbatches, for every pair of model "
    "and objective; finite gradients for each in one pair",
)

V = 13
B = 3
L = 5
TOKENIZER: dict[str, Any] = {
    "width": 4,
    "depth": 1,
    "multipliers": (1, 2),
    "codes": 5,
    "code_size": 3,
    "channels": 1,
    "norm": GroupNorm(groups=2),
}
# Values for fields without a default, and for parts that are None by default but that some objective needs.
FIELDS: dict[str, Any] = {
    "vocab": V,
    "width": 8,
    "depth": 2,
    "heads": 2,
    "patch": 2,
    "mask_id": 0,
    "sentinel_id": V - 1,
    "decoder_width": 8,
    "decoder_depth": 1,
    "decoder_heads": 2,
    "stages": (Stage(8, 1, 2), Stage(16, 1, 4)),
    "backbone": MetaFormer(stages=(Stage(8, 1),), stem=ConvEmbedding()),
    "queries": 4,
    "encoder": ViT(patch=2, width=8, depth=2, heads=2),
    "teacher": Bert(vocab=V, width=8, depth=1, heads=2),
    "objective": MaskedToken(mask_id=0, vocab=V),
    "generator": Bert(vocab=V, width=8, depth=2, heads=2),
    "discriminator": Bert(vocab=V, width=8, depth=2, heads=2, head=ReplacedTokens()),
    "codes": 5,
    "tokenizer": VQTokenizer(**TOKENIZER),
    "classes": 3,
    "tasks": {"images": Classes(3, MeanTokens()), "texts": Classes(3, MeanTokens())},
}
# What some need instead or too; and which keys a task's rows have.
OWN: dict[str, Any] = {
    "Several": {"tasks": {"images": Classification(), "texts": Classification()}},
    "BiT": {"stages": (Stage(8, 2), Stage(16, 1)), "norm": GroupNormRelu(groups=2)},
    "ConvNet": {"stages": 2},
    "ConvNeXt": {"stem": PatchEmbedding(patch=1), "attention": DepthwiseConv(side=3)},
    "MaxViT": {"stem": MaxViTStem(channels=4, stride=1), "attention": WindowAttention(side=2)},
    "MetaFormer": {"stem": ConvEmbedding(stride=1)},
    "CvT": {"stem": NormedConvEmbedding(side=3, stride=1, padding=1)},
    "RepLKNet": {"stem": ConvEmbedding(stride=1), "sides": (3, 3)},
    "ResNet": {"stages": (Stage(8, 2), Stage(16, 1)), "norm": GroupNorm(groups=2)},
    "VQTokenizer": TOKENIZER,
    "SAM": {"mlp": MLP(activation="relu")},
    "PromptedMasks": {"clicks": 2, "refinements": 0},
    "Swin": {"stem": PatchEmbedding(patch=1), "attention": WindowAttention(side=2, shift=1)},
}
OF_TASK = {"images": {"image"}, "texts": {"tokens", "segments"}}


# The heads of objectives that no model has by default.
HEADS: dict[str, Head] = {
    "Classification": Classes(3, MeanTokens()),
    "Regression": Classes(1, MeanTokens()),
    "TokenClassification": TokenClasses(V),
    "Spans": StartEnd(),
    "MultipleChoice": Classes(1, MeanTokens()),
    "SetPrediction": ObjectBoxes(3),
    "WithNextToken": Heads({"task": Classes(3, MeanTokens()), "text": Tied()}),
}


def subclasses(package: ModuleType, base: type) -> list[type]:
    """The subclasses of `base` in a package that can be called, and can be constructed with FIELDS."""
    found, plain = set(), inspect.getattr_static(base, "__call__", None)
    for info in pkgutil.walk_packages(package.__path__, package.__name__ + "."):
        for value in vars(importlib.import_module(info.name)).values():
            if (
                inspect.isclass(value)
                and issubclass(value, base)
                and inspect.getattr_static(value, "__call__", plain) is not plain
            ):
                found.add(value)
    return sorted((kind for kind in found if required(kind) <= set(FIELDS)), key=lambda kind: kind.__name__)


def required(kind: type) -> set[str]:
    missing = dataclasses.MISSING
    fields = dataclasses.fields(kind)
    return {f.name for f in fields if f.init and f.default is missing and f.default_factory is missing}


def build(kind: type, **more: Any) -> Any:
    names = {f.name for f in dataclasses.fields(kind)}
    return kind(**{k: v for k, v in FIELDS.items() if k in names} | OWN.get(kind.__name__, {}) | more)


def batch(*examples: int) -> dict[str, jax.Array]:
    """A batch with every key, of the examples with these ids; -1 is padding."""
    ids = np.asarray(examples, np.int32)
    rng = [np.random.default_rng(abs(i)) for i in examples]
    real = (ids >= 0).astype(np.float32)
    whole = {
        "id": ids,
        "tokens": np.stack([r.integers(0, V, L) for r in rng]).astype(np.int32),
        "targets": np.stack([r.integers(0, V, L) for r in rng]).astype(np.int32),
        "segments": np.ones((B, L), np.int32),
        "source_tokens": np.stack([r.integers(0, V, L + 2) for r in rng]).astype(np.int32),
        "source_segments": np.ones((B, L + 2), np.int32),
        "positions": np.tile(np.arange(L, dtype=np.int32), (B, 1)),
        "image": np.stack([r.normal(size=(4, 4, 1)) for r in rng]).astype(np.float32),
        "choice_tokens": np.stack([r.integers(0, V, (3, L)) for r in rng]).astype(np.int32),
        "choice_segments": np.ones((B, 3, L), np.int32),
        "label": np.asarray([r.integers(0, 3) for r in rng], np.int32),
        "start": np.asarray([r.integers(0, 3) for r in rng], np.int32),
        "end": np.asarray([r.integers(3, L) for r in rng], np.int32),
        "value": np.asarray([r.normal() for r in rng], np.float32),
        "extent": np.stack([r.integers(1, 5, 2) for r in rng]).astype(np.int32),
        "boxes": np.stack([np.sort(r.uniform(size=(3, 2, 2)), 1).reshape(3, 4) for r in rng]).astype(np.float32),
        "box_labels": np.stack([np.append(r.integers(0, 3, 2), -1) for r in rng]).astype(np.int32),
        "masks": np.stack([r.integers(0, 2, (3, 4, 4)) for r in rng]).astype(np.int32),
    }
    return on_jax(whole | {"weights": real, "weights_by_token": np.tile(real[:, None], (1, L))})


def fitted(model: Any, objective: Objective, *examples: int) -> dict[str, jax.Array]:
    """A batch for these two: of what the model takes; weights a token where each is a target, else an example."""
    whole = batch(*examples)
    if isinstance(objective, Several):
        rows = {task: {"id", "label", "weights"} | keys for task, keys in OF_TASK.items()}
        return {"id": whole["id"]} | {f"{task}/{k}": whole[k][:, None] for task, keys in rows.items() for k in keys}
    by_token = whole.pop("weights_by_token")
    needs = set(objective.required_keys)
    whole = {key: x for key, x in whole.items() if key in takes(model) | needs or key not in takes(*MODELS)}
    return whole | {"weights": by_token} if "tokens" in needs and not needs & BY_EXAMPLE else whole


def drawn(model: Any, objective: Objective, given: dict[str, jax.Array]) -> Any:
    """The shapes of the model's variables, boxed with their axes."""
    return jax.eval_shape(lambda: objective.init(model, {"params": jax.random.key(0, impl="rbg")}, given))


def takes(*models: Any) -> set[str]:
    """The names of the arguments of these models."""
    return {name for model in models for name in inspect.signature(model.__call__).parameters}


BY_EXAMPLE = {"label", "value", "start"}  # targets of which a text has one, and so one weight
MODELS = [kind for kind in subclasses(txjax.models, Model) if not (issubclass(kind, Part) or kind is Hierarchical)]
OBJECTIVES = subclasses(txjax.objectives, Objective)
BY_NAME: dict[str, Any] = {kind.__name__: kind for kind in (*MODELS, *OBJECTIVES)}


@dataclasses.dataclass
class Pair:
    """A model, an objective that it suits, and the shapes of its variables, boxed with their axes."""

    model: Any
    objective: Objective
    boxed: Any

    def __str__(self) -> str:
        return f"{type(self.model).__name__} {type(self.objective).__name__}"


def paired(model: Any, objective: Objective) -> Pair | None:
    """The two, if the objective can call the model and use its output; an error other than UserError is a bug."""
    given = fitted(model, objective, 1, 2, 3)
    try:
        boxed = drawn(model, objective, given)
        made = meta.unbox(boxed)
        jax.eval_shape(lambda: objective(model, jax.tree.map(jnp.zeros_like, made), given, jax.random.key(0), False))
    except UserError as error:
        assert error.field.split(".")[:2] in (["config", "model"], ["config", "objective"]), error
        return None
    return Pair(model, objective, boxed)


class Faulty(Bert, kw_only=True):
    """A model with a bug."""

    def __call__(self, tokens: jax.Array, segments: Any = None, positions: Any = None, train: bool = False) -> Any:
        return len(3)  # type: ignore[arg-type]


def test_a_bug_is_no_unsuited_pair() -> None:
    with pytest.raises(TypeError, match="has no len"):
        paired(build(Faulty), build(NextToken))
    assert paired(build(Bert), build(NextToken)) is None


def pair_of(kind: type, goal: type[Objective]) -> Pair | None:
    """A model and an objective, with the head that the objective needs, or else the model's own. None if they don't
    suit each other."""
    has_head = "head" in {field.name for field in dataclasses.fields(kind)}
    head = {"head": HEADS[goal.__name__]} if has_head and goal.__name__ in HEADS else {}
    return paired(build(kind, **head), build(goal))


def pairs(kind: type) -> Iterator[Pair]:
    """A model with every objective that it suits. Each is traced when it is taken."""
    for goal in OBJECTIVES:
        if pair := pair_of(kind, goal):
            yield pair


# The pairs that the contract must find; a new model or objective brings its own.
SUITED = {
    "Bert Distillation",
    "Bert MaskedToken",
    "Bert MaskedVisualTokens",
    "Bert Classification",
    "Bert Regression",
    "Bert MultipleChoice",
    "Bert Spans",
    "Bert TokenClassification",
    "Bert WithNextToken",
    "BiT Classification",
    "BiT Regression",
    "ConvNet Classification",
    "ConvNet Regression",
    "ConvNet SetPrediction",
    "ConvNeXt Classification",
    "ConvNeXt Regression",
    "CvT Classification",
    "CvT Regression",
    "DETR Classification",
    "DETR Regression",
    "DETR SetPrediction",
    "Deberta MaskedToken",
    "Deberta MaskedVisualTokens",
    "Deberta Classification",
    "Deberta Distillation",
    "Deberta Regression",
    "Deberta MultipleChoice",
    "Deberta Spans",
    "Deberta TokenClassification",
    "Deberta WithNextToken",
    "Decoder NextToken",
    "Decoder Classification",
    "Decoder Regression",
    "Decoder MultipleChoice",
    "Decoder Spans",
    "Decoder TokenClassification",
    "Decoder WithNextToken",
    "Electra ReplacedToken",
    "EncoderDecoder NextToken",
    "EncoderDecoder SpanCorruption",
    "MAE MaskedPatch",
    "MaxViT Classification",
    "MaxViT Regression",
    "MetaFormer Classification",
    "MetaFormer Regression",
    "RecurrentEncoderDecoder NextToken",
    "RecurrentEncoderDecoder SpanCorruption",
    "RepLKNet Classification",
    "RepLKNet Regression",
    "ResNet Classification",
    "ResNet Regression",
    "ReversibleDecoder Classification",
    "ReversibleDecoder NextToken",
    "ReversibleDecoder Regression",
    "ReversibleDecoder MultipleChoice",
    "ReversibleDecoder Spans",
    "ReversibleDecoder TokenClassification",
    "ReversibleDecoder WithNextToken",
    "SAM PromptedMasks",
    "SharedTrunk Several",
    "Swin Classification",
    "Swin Regression",
    "ViT Classification",
    "ViT Regression",
    "ViT SetPrediction",
    "VQTokenizer VQReconstruction",
}

# Every model and every objective at least once, since gradients take most of the time.
GRADED = {min(pair for pair in SUITED if part in pair.split()) for part in " ".join(SUITED).split()}


def test_each_has_partners() -> None:
    named = " ".join(SUITED).split()
    assert {kind.__name__ for kind in (*MODELS, *OBJECTIVES)} == set(named), "a new one states its pairs in SUITED"


def describe(kind: type) -> Item:
    """The item of a model, for the selection of a change."""
    return describe_tree(build(kind))


def describe_pair(pair: str) -> Item:
    """The item of a pair in SUITED."""
    kind, goal = (BY_NAME[name] for name in pair.split())
    return describe_tree(build(kind), inspect.getfile(goal))


@pytest.mark.parametrize("kind", OBJECTIVES)
def test_objective_states_its_needs(kind: type[Objective]) -> None:
    objective = build(kind)
    needs = objective.required_keys
    assert "id" in needs and missing_keys(needs, []) == list(needs)
    for keys in itertools.product(*(need.split(" | ") for need in needs)):
        assert {part_of(key)[1] for key in keys} <= set(BATCH_KEYS) and not missing_keys(needs, keys)
        if not isinstance(objective, Several):
            given = {"image": jnp.zeros((1, 4, 4, 1)), "label": jnp.zeros(1, jnp.int32)}
            assert objective.inputs({key: given.get(key, jnp.zeros((1, 8))) for key in keys})


@per_family("name", describe_pair, seconds=2)
@pytest.mark.parametrize("name", sorted(SUITED))
def test_pair(name: str) -> None:
    """Its parameters are float32 and have named axes, whatever its dtype. Neither order, nor padding, nor the split
    into microbatches changes the sums; only padding gives zeros. Gradients are finite, and zeros of padding alone.
    """
    kind, goal = (BY_NAME[word] for word in name.split())
    pair = pair_of(kind, goal)
    assert pair, f"{name} is in SUITED"
    check_parameters(pair.boxed)
    check_sums(pair)
    if name == min(other for other in SUITED if other.split()[0] == kind.__name__):
        inputs = fitted(pair.model, pair.objective, 1, 2, 3)
        check_parameters(drawn(pair.model.clone(dtype="bfloat16"), pair.objective, inputs))


@per_family("kind", describe, seconds=2, cover=False)
@pytest.mark.parametrize("kind", MODELS)
def test_no_other_pair_suits(kind: type) -> None:
    """What else a model suits is in SUITED, too."""
    others = [goal for goal in OBJECTIVES if f"{kind.__name__} {goal.__name__}" not in SUITED]
    assert not [goal.__name__ for goal in others if pair_of(kind, goal)]


def check_parameters(boxed: Any) -> None:
    assert set(boxed) <= {"params", "batch_stats"}
    assert all(x.dtype == jnp.float32 for x in jax.tree.leaves(boxed.get("batch_stats", {})))
    for box in jax.tree.leaves(boxed["params"], is_leaf=lambda x: hasattr(x, "names")):
        assert box.value.dtype == jnp.float32 and len(box.names) == box.value.ndim and all(box.names)


def check_sums(pair: Pair) -> None:
    """And gradients of the pairs in GRADED."""
    model, objective, key = pair.model, pair.objective, jax.random.key(5)
    params = filled(meta.unbox(pair.boxed))

    def loss(params: Any, given: Any) -> tuple[jax.Array, Any]:
        outcome = objective(model, params, given, key, False)
        return sum(term.value for term in outcome.losses.values()), (outcome.losses, outcome.metrics)

    graded = str(pair) in GRADED
    compiled = jax.jit(jax.grad(loss, has_aux=True) if graded else lambda *args: ({}, loss(*args)[1]))

    def run(*examples: int) -> tuple[Any, Any]:
        return compiled(params, fitted(model, objective, *examples))

    def same(a: Any, b: Any) -> None:
        jax.tree.map(lambda x, y: np.testing.assert_allclose(x, y, rtol=1e-5, atol=1e-5), a, b)

    gradient, means = run(1, 2, -1)
    assert bool(jax.tree.leaves(gradient)) == graded
    assert all(np.isfinite(leaf).all() for leaf in jax.tree.leaves(gradient))
    assert means[0] and not set(means[0]) & set(means[1])
    same(run(-1, 2, 1)[1], means)
    same(jax.tree.map(jnp.add, run(1, -1, -1)[1], run(-1, -1, 2)[1]), means)
    gradient, nothing = run(-1, -1, -1)
    assert not any(np.any(leaf) for leaf in jax.tree.leaves((gradient, nothing)))
