"""Layer-wise learning rates against a formula in numpy, and against the published numbering."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax.core import meta

from txjax.axes import axes_of
from txjax.models.text.bert import Bert
from txjax.models.vision.mae import MAE
from txjax.models.vision.vit import ViT
from txjax.nn import Classes, FirstToken, Learned
from txjax.optim import LARS, SGD, Adafactor, AdamW, Constant, Group, LayerDecay, Lion, Muon, Optimizer
from txjax.types import UserError, flat_paths

from made import numbers

DEPTH = 3
SIZES = dict(width=4, depth=DEPTH, heads=2)
IMAGE = jax.ShapeDtypeStruct((2, 4, 4, 1), jnp.float32)
TOKENS = jax.ShapeDtypeStruct((2, 5), jnp.int32)
VIT = ViT(patch=2, head=Classes(3, FirstToken()), positions=Learned(max_length=5), **SIZES)


def traced(model, inputs) -> tuple[dict, dict]:
    """Shapes and logical axes of a model's parameters."""
    boxed = jax.eval_shape(lambda x: model.init(jax.random.key(0), x), inputs)["params"]
    is_box = lambda node: isinstance(node, meta.AxisMetadata)  # noqa: E731
    return meta.unbox(boxed), jax.tree.map(axes_of, boxed, is_leaf=is_box)


def depth(optimizer: Optimizer, shapes: dict, axes: dict) -> int:
    names = flat_paths(axes, is_leaf=lambda node: isinstance(node, tuple))
    return optimizer.depth(names, {path: x.shape for path, x in flat_paths(shapes).items()})


def layer_id(name: str, layers: int) -> int:
    """The published number of a parameter of a ViT, by its published name."""
    if name.startswith(("cls_token", "pos_embed", "patch_embed")):
        return 0
    return int(name.split(".")[1]) + 1 if name.startswith("blocks") else layers + 1


# Published names -> paths here.
PUBLISHED = {
    "patch_embed/kernel": "patch_embed.proj.weight",
    "patch_embed/bias": "patch_embed.proj.bias",
    "pool/token": "cls_token",
    "positions/table/embedding": "pos_embed",
    "norm_final/scale": "norm.weight",
    "norm_final/bias": "norm.bias",
    "head/kernel": "head.weight",
    "head/bias": "head.bias",
}


def test_the_numbering_is_the_published_one():
    shapes, axes = traced(VIT, IMAGE)
    decay = LayerDecay(decay=0.65)
    assert depth(AdamW(layer_decay=decay), shapes, axes) == DEPTH
    for path, names in flat_paths(axes, is_leaf=lambda node: isinstance(node, tuple)).items():
        published = [f"blocks.{i}.x" for i in range(DEPTH)] if path.startswith("layers/") else [PUBLISHED[path]]
        expected = [0.65 ** (DEPTH + 1 - layer_id(name, DEPTH)) for name in published]
        factor = decay.factor(path, names, DEPTH)
        np.testing.assert_allclose(factor.ravel(), expected, rtol=1e-6, err_msg=path)
        assert factor.ndim == len(names)


def test_the_parts_of_bert():
    _, axes = traced(Bert(vocab=7, **SIZES), TOKENS)
    factors = {
        path.split("/")[0]: LayerDecay(decay=0.5).factor(path, names, DEPTH).ravel().tolist()
        for path, names in flat_paths(axes, is_leaf=lambda node: isinstance(node, tuple)).items()
    }
    inputs = dict.fromkeys(["embed", "embed_types", "positions", "norm_embed"], [0.5**4])
    heads = dict.fromkeys(["transform", "norm_transform", "head"], [1.0])
    assert factors == inputs | heads | {"layers": [0.125, 0.25, 0.5]}


@pytest.mark.parametrize("kind", [AdamW, Lion, SGD, LARS, Adafactor, Muon], ids=lambda k: k.__name__)
def test_layer_decay_is_exact_for_every_optimizer(kind):
    """The update with decay is the update without, times the factor: the moments are the same."""
    shapes, axes = traced(VIT, IMAGE)
    params, grads = (jax.tree.map(lambda x, s=seed: jnp.asarray(numbers(*x.shape, seed=s)), shapes) for seed in (1, 2))
    groups = (Group("head/.*", lr=0.5), Group("(?!head/).*"))

    def second_update(params: dict, grads: dict, decay: LayerDecay | None) -> dict:
        optimizer = kind(schedule=Constant(), weight_decay=0.1, groups=groups, layer_decay=decay)
        transform = optimizer.build(10, axes, depth(optimizer, shapes, axes))
        _, state = transform.update(grads, transform.init(params), params)
        return transform.update(grads, state, params)[0]

    both = jax.jit(lambda *given: [flat_paths(second_update(*given, d)) for d in (None, LayerDecay(decay=0.75))])
    updates = both(params, grads)
    for path, plain in updates[0].items():
        factor = np.float32(1)
        if path.startswith("layers/"):
            factor = (0.75 ** (DEPTH - np.arange(DEPTH))).reshape(-1, *[1] * (plain.ndim - 1)).astype(np.float32)
        elif not path.startswith(("head/", "norm_final/")):
            factor = np.float32(0.75 ** (DEPTH + 1))
        np.testing.assert_allclose(updates[1][path], factor * np.asarray(plain), rtol=1e-6, atol=1e-9, err_msg=path)


@pytest.mark.parametrize(
    ("model", "inputs", "decay", "words"),
    [
        (
            MAE(patch=2, decoder_width=8, decoder_depth=1, decoder_heads=2, **SIZES),
            IMAGE,
            LayerDecay(),
            "one stack of layers, got 'decoder/layers, layers'",
        ),
        (VIT, IMAGE, LayerDecay(inputs="patch_embd/kernel"), "did you mean patch_embed/kernel"),
        (VIT, IMAGE, LayerDecay(inputs="("), "config.optimizer.layer_decay.inputs: expected a regular expression"),
    ],
    ids=["two stacks", "no input", "no pattern"],
)
def test_user_errors(model, inputs, decay, words):
    with pytest.raises(UserError, match=words.replace("(", r"\(")):
        depth(AdamW(layer_decay=decay), *traced(model, inputs))
