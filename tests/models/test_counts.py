"""Parameter counts of published sizes, on shapes alone: sizes, counts and references are in the cards."""

import copy
import inspect
import math
from typing import Any

import jax.numpy as jnp
import pytest

from txjax.interop.huggingface.catalog import family_of
from txjax.models.cards import Preset, cards
from txjax.types import UserError, flat_paths, spec

from helpers.arrays import shapes
from selection import describe_tree, per_family

pytestmark = pytest.mark.claim("Models and objectives", "parameter counts of the published sizes")

PRESETS = {preset.name: preset for card in cards().values() for preset in card.presets}
# Every published size by its preset and name, such as "gpt2 124M".
SIZES = {f"{name} {size}".strip(): (preset, size) for name, preset in PRESETS.items() for size in preset.sizes}
SLOW = {f"{name} {size}" for name, preset in PRESETS.items() for size in preset.slow}
INPUTS = {
    "tokens": spec((1, 8), "int32"),
    "source_tokens": spec((1, 8), "int32"),
    "image": spec((1, 224, 224, 3), "float32"),
}


def model_of(name: str) -> Any:
    """The model of a published size."""
    preset, size = SIZES[name]
    return preset.model(size)


def shapes_of(preset: Preset, size: str) -> dict[str, Any]:
    """The shapes of a size's parameters by path, called with what it is counted with."""
    model = preset.model(size)
    arguments = inspect.signature(model.__call__).parameters
    inputs = {name: shape for name, shape in INPUTS.items() if name in arguments}
    inputs |= {**preset.inputs, **preset.sizes[size].inputs}
    arrays = {name: jnp.zeros(shape.shape, shape.dtype) for name, shape in inputs.items()}
    models = [model.for_task(task) for task in getattr(model, "tasks", ())] or [model]
    return {path: x for part in models for path, x in flat_paths(shapes(part, **arrays)["params"]).items()}


@per_family("name", lambda name: describe_tree(model_of(name)), seconds=0.3, cover=False, budget=6)
@pytest.mark.parametrize("name", [pytest.param(n, marks=[pytest.mark.slow] * (n in SLOW)) for n in SIZES])
def test_published_counts(name: str) -> None:
    preset, size = SIZES[name]
    leaves = shapes_of(preset, size).values()
    assert sum(math.prod(leaf.shape) for leaf in leaves) == preset.sizes[size].parameters


@pytest.mark.parametrize("name", PRESETS)
def test_presets_are_functions_of_a_size(name: str) -> None:
    """Without a size it is one of the published ones; another name is an error with all that there are."""
    preset = PRESETS[name]
    assert type(preset.build()) is type(preset.model(next(iter(preset.sizes))))
    if "" not in preset.sizes:
        published = next(iter(preset.sizes))
        with pytest.raises(UserError, match=f"^size: expected one of .*{published}.*, got 'none'"):
            preset.build("none")


def reference(preset: Preset, size: str) -> tuple[Any, set[str]]:
    """The model of transformers of this size's folder, without weights, and the names of its constants."""
    import torch
    import transformers

    model = preset.model(size)
    if "image" in inspect.signature(model.__call__).parameters and getattr(model, "image_size", None) == ():
        model = model.clone(image_size=INPUTS["image"].shape[1:3])
    family = family_of(model)
    options = dict(family.unless_given) | family.config(model, shapes_of(preset, size))
    assert options["architectures"] == [preset.reference]
    kind = getattr(transformers, preset.reference)
    with torch.device("meta"):
        theirs = kind(kind.config_class(**options))
    if options.get("tie_word_embeddings") is False:  # T5's class ties the head whatever its config says
        theirs.set_output_embeddings(copy.deepcopy(theirs.get_output_embeddings()))
    else:
        theirs.tie_weights()
    return theirs, set(family.constants(model))


@pytest.mark.slow
@pytest.mark.filterwarnings("default")  # the reference has warnings of its own
@pytest.mark.parametrize("name", [name for name, (preset, _) in SIZES.items() if preset.reference])
def test_the_reference_counts_the_same(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Built from its own config. Parts that it freezes count, as they are trained elsewhere; constants don't."""
    torch, _ = (pytest.importorskip(m, reason="txjax[parity]") for m in ("torch", "transformers"))
    monkeypatch.setattr(torch.Tensor, "requires_grad_", lambda self, *_: self)
    preset, size = SIZES[name]
    theirs, constants = reference(preset, size)
    parameters = [x for path, x in theirs.named_parameters() if x.requires_grad and path not in constants]
    assert sum(x.numel() for x in parameters) == preset.sizes[size].parameters
