"""The contract of every model and objective of the package. New files are found and tested automatically."""

import dataclasses
import importlib
import inspect
import itertools
import pkgutil
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
from txjax.models.cards import CLASSES, VOCAB, cards
from txjax.models.model import Model
from txjax.models.text.bert.bert import Bert
from txjax.models.transformer import SubTransformer
from txjax.objectives import (
    Classification,
    ComparingObjective,
    MaskedToken,
    MultiTask,
    NextToken,
    Objective,
    missing_keys,
)
from txjax.tree import walk
from txjax.types import UserError

from helpers.arrays import filled, on_jax
from selection import Item, describe_tree, per_family

pytestmark = pytest.mark.claim(
    "Models and objectives",
    "float32 parameters with named axes, sums independent of order, padding and microbatches, for every pair of model "
    "and objective; finite gradients for each in one pair",
)

V = VOCAB
B = 3
L = 5
EXAMPLES = {example.name: example for card in cards().values() for example in card.examples}
# Values for objectives' fields without a default, and for others that make them cheap.
FIELDS: dict[str, Any] = {
    "vocab": V,
    "mask_id": 0,
    "sentinel_id": V - 1,
    "teacher": EXAMPLES["Bert"].model,
    "objective": MaskedToken(mask_id=0, vocab=V),
    "tokenizer": EXAMPLES["VQTokenizer"].model,
    "classes": CLASSES,
    "tasks": {"images": Classification(), "texts": Classification()},
    "clicks": 2,
    "refinements": 0,
}
OF_TASK = {"images": {"image"}, "texts": {"tokens", "segments"}}  # the keys of a task's rows

# The heads of objectives that not every model has by default.
HEADS = {name: head for example in EXAMPLES.values() for name, head in example.objectives.items() if head}


def subclasses(package: ModuleType, base: type) -> list[type]:
    """The subclasses of `base` in a package that can be called."""
    kinds, plain = set(), inspect.getattr_static(base, "__call__", None)
    for info in pkgutil.walk_packages(package.__path__, package.__name__ + "."):
        for value in vars(importlib.import_module(info.name)).values():
            if (
                inspect.isclass(value)
                and issubclass(value, base)
                and not inspect.isabstract(value)
                and inspect.getattr_static(value, "__call__", plain) is not plain
            ):
                kinds.add(value)
    return sorted(kinds, key=lambda kind: kind.__name__)


def objective_of(kind: type[Objective]) -> Objective:
    """An objective of this class."""
    names = {field.name for field in dataclasses.fields(kind)}
    return kind(**{name: value for name, value in FIELDS.items() if name in names})


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
        "features": np.stack([r.normal(size=(24, 8)) for r in rng]).astype(np.float32),
        "features_length": np.asarray([r.integers(17, 25) for r in rng], np.int32),
        "transcript": np.stack([r.integers(0, V - 1, 3) for r in rng]).astype(np.int32),
        "transcript_length": np.asarray([r.integers(0, 4) for r in rng], np.int32),
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
    if isinstance(objective, MultiTask):
        rows = {task: {"id", "label", "weights"} | keys for task, keys in OF_TASK.items()}
        return {"id": whole["id"]} | {f"{task}/{k}": whole[k][:, None] for task, keys in rows.items() for k in keys}
    by_token = whole.pop("weights_by_token")
    needs = set(objective.required_keys)
    taken = takes(*(example.model for example in EXAMPLES.values()))
    whole = {key: x for key, x in whole.items() if key in takes(model) | needs or key not in taken}
    return whole | {"weights": by_token} if "tokens" in needs and not needs & BY_EXAMPLE else whole


def drawn(model: Any, objective: Objective, given: dict[str, jax.Array]) -> Any:
    """The shapes of the model's variables, boxed with their axes."""
    return jax.eval_shape(lambda: objective.init(model, {"params": jax.random.key(0, impl="rbg")}, given))


def takes(*models: Any) -> set[str]:
    """The names of the arguments of these models."""
    return {name for model in models for name in inspect.signature(model.__call__).parameters}


BY_EXAMPLE = {"label", "value", "start"}  # targets of which a text has one, and so one weight
OBJECTIVES = {kind.__name__: kind for kind in subclasses(txjax.objectives, Objective)}


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
        assert error.field.split(".")[:2] in (["config", "model"], ["config", "objective"], ["config", "data"]), error
        return None
    return Pair(model, objective, boxed)


class Faulty(Bert, kw_only=True):
    """A model with a bug."""

    def __call__(self, tokens: jax.Array, segments: Any = None, positions: Any = None, train: bool = False) -> Any:
        return len(3)  # type: ignore[arg-type]


def test_a_bug_is_no_unsuited_pair() -> None:
    with pytest.raises(TypeError, match="has no len"):
        paired(Faulty(vocab=V, width=8, depth=2, heads=2), NextToken())
    assert paired(EXAMPLES["Bert"].model, NextToken()) is None


def pair_of(model: str, objective: str) -> Pair | None:
    """A model and an objective, with the head that the objective needs, or else the model's own. None if they don't
    suit each other."""
    example = EXAMPLES[model]
    has_head = "head" in {field.name for field in dataclasses.fields(type(example.model))}
    head = example.objectives.get(objective, HEADS.get(objective)) if has_head else None
    model_with_head = example.model.clone(head=head) if head else example.model
    return paired(model_with_head, objective_of(OBJECTIVES[objective]))


# The pairs that the cards state; a new model or objective brings its own.
SUITED = {f"{name} {objective}" for name, example in EXAMPLES.items() for objective in example.objectives}

# Models with an objective of their own.
MODELS = [name for name, example in EXAMPLES.items() if example.objectives]


def first_pair(model: str) -> Pair:
    """A model with the first objective that suits it."""
    pairs = (pair_of(model, name) for name in OBJECTIVES if f"{model} {name}" in SUITED)
    return next(pair for pair in pairs if pair is not None)


# Every model and every objective at least once, since gradients take most of the time.
GRADED = {min(pair for pair in SUITED if part in pair.split()) for part in " ".join(SUITED).split()}


def test_each_has_partners() -> None:
    """Every class of the families' models is in a card. It has an objective, or is a part of a model that has."""
    kinds = [kind for kind in subclasses(txjax.models, Model) if not issubclass(kind, SubTransformer)]
    models = {kind.__name__ for kind in kinds if kind.__module__.count(".") > 3}  # below a family's folder
    assert models == set(EXAMPLES)
    trained = [example.model for example in EXAMPLES.values() if example.objectives]
    assert set(EXAMPLES) <= {type(node).__name__ for model in trained for _, node in walk(model)}
    assert set(OBJECTIVES) == {objective for example in EXAMPLES.values() for objective in example.objectives}


def describe(model: str) -> Item:
    """The item of a model, for the selection of a change."""
    return describe_tree(EXAMPLES[model].model)


def describe_pair(pair: str) -> Item:
    """The item of a pair."""
    model, objective = pair.split()
    return describe_tree(EXAMPLES[model].model, inspect.getfile(OBJECTIVES[objective]))


@pytest.mark.parametrize("kind", OBJECTIVES.values())
def test_objective_states_its_needs(kind: type[Objective]) -> None:
    objective = objective_of(kind)
    needs = objective.required_keys
    assert "id" in needs and missing_keys(needs, []) == list(needs)
    for keys in itertools.product(*(need.split(" | ") for need in needs)):
        assert {part_of(key)[1] for key in keys} <= set(BATCH_KEYS) and not missing_keys(needs, keys)


@per_family("name", describe_pair, seconds=2)
@pytest.mark.parametrize("name", sorted(SUITED))
def test_pair(name: str) -> None:
    """Its parameters are float32 and have named axes, whatever its dtype. Neither order, nor padding, nor the split
    into microbatches changes the sums; only padding gives zeros. Gradients are finite, and zeros of padding alone.
    """
    model, objective = name.split()
    pair = pair_of(model, objective)
    assert pair, f"the card of {model} has {objective}"
    check_parameters(pair.boxed)
    check_sums(pair)
    if name == min(other for other in SUITED if other.split()[0] == model):
        inputs = fitted(pair.model, pair.objective, 1, 2, 3)
        check_parameters(drawn(pair.model.clone(dtype="bfloat16"), pair.objective, inputs))


@per_family("model", describe, seconds=2, cover=False)
@pytest.mark.parametrize("model", sorted(EXAMPLES))
def test_no_other_pair_suits(model: str) -> None:
    """What else a model suits is in its card, too."""
    others = [objective for objective in OBJECTIVES if objective not in EXAMPLES[model].objectives]
    assert not [objective for objective in others if pair_of(model, objective)]


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
    if not isinstance(objective, ComparingObjective):
        same(jax.tree.map(jnp.add, run(1, -1, -1)[1], run(-1, -1, 2)[1]), means)
    gradient, nothing = run(-1, -1, -1)
    assert not any(np.any(leaf) for leaf in jax.tree.leaves((gradient, nothing)))
