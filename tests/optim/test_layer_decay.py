"""Layer-wise learning rates against a formula in numpy, and against the published numbering."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax.core import meta

from txjax.axes import axes_of
from txjax.models import Stage
from txjax.models.text.bert import Bert
from txjax.models.text.encoder_decoder import EncoderDecoder
from txjax.models.vision.conv_net import ConvNet
from txjax.models.vision.swin import Swin
from txjax.models.vision.vit import ViT
from txjax.nn import (
    Classes,
    FirstToken,
    Learned,
    MeanTokens,
    PatchEmbedding,
    WindowAttention,
    record_parameters,
)
from txjax.optim import LARS, SGD, Adafactor, AdamW, Constant, Group, LayerDecay, Lion, Muon, Optimizer
from txjax.types import UserError, flat_paths

from helpers.arrays import numbers

DEPTH = 3
SIZES = dict(width=4, depth=DEPTH, heads=2)
IMAGE = jax.ShapeDtypeStruct((2, 4, 4, 1), jnp.float32)
TOKENS = jax.ShapeDtypeStruct((2, 5), jnp.int32)
VIT = ViT(patch=2, head=Classes(3, FirstToken()), positions=Learned(max_length=5), **SIZES)


def is_tuple(node) -> bool:
    return isinstance(node, tuple)


def traced(model, **inputs) -> tuple[dict, dict, list]:
    """Shapes and logical axes of a model's parameters, and their order."""
    with record_parameters() as calls:
        boxed = jax.eval_shape(lambda x: model.init(jax.random.key(0), **x), inputs)["params"]
    is_box = lambda node: isinstance(node, meta.AxisMetadata)  # noqa: E731
    return meta.unbox(boxed), jax.tree.map(axes_of, boxed, is_leaf=is_box), calls


def below(optimizer: Optimizer, shapes: dict, axes: dict, calls: list) -> dict[str, np.ndarray]:
    flat = {path: x.shape for path, x in flat_paths(shapes).items()}
    return optimizer.below_head(calls, flat_paths(axes, is_leaf=is_tuple), flat)


def factors(model, **inputs) -> dict[str, list[float]]:
    """The factors of the parameters with `decay=0.5`, by the parts of the model."""
    decay = LayerDecay(decay=0.5)
    found = {}
    for path, steps in below(AdamW(layer_decay=decay), *traced(model, **inputs)).items():
        names = path.split("/")
        part = "/".join(names[: names.index("layers") + 1]) if "layers" in names else path.rpartition("/")[0]
        factor = decay.factor(steps).ravel().tolist()
        assert found.setdefault(part, factor) == factor
    return found


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
    shapes, axes, calls = traced(VIT, image=IMAGE)
    decay, flat = LayerDecay(decay=0.65), flat_paths(axes, is_leaf=is_tuple)
    for path, steps in below(AdamW(layer_decay=decay), shapes, axes, calls).items():
        published = [f"blocks.{i}.x" for i in range(DEPTH)] if path.startswith("layers/") else [PUBLISHED[path]]
        expected = [0.65 ** (DEPTH + 1 - layer_id(name, DEPTH)) for name in published]
        factor = decay.factor(steps)
        np.testing.assert_allclose(factor.ravel(), expected, rtol=1e-6, err_msg=path)
        assert factor.ndim == len(flat[path])


def test_the_parts_of_bert():
    inputs = dict.fromkeys(["embed", "embed_types", "positions/table", "norm_embed"], [0.5**4])
    heads = dict.fromkeys(["transform", "norm_transform", "head"], [1.0])
    assert factors(Bert(vocab=7, **SIZES), tokens=TOKENS) == inputs | heads | {"layers": [0.125, 0.25, 0.5]}


def test_layers_are_numbered_through_all_stacks_and_calls():
    swin = Swin(
        stages=(Stage(4, 2, 2), Stage(8, 1, 2)),
        stem=PatchEmbedding(patch=2),
        mixer=WindowAttention(side=2),
        head=Classes(3, MeanTokens()),
    )
    merging = dict.fromkeys(["downsample_1/norm", "downsample_1/linear"], [0.25])  # as the layer before: SimMIM
    assert factors(swin, image=IMAGE) == merging | {
        "downsample_0/linear": [0.0625],
        "downsample_0/norm": [0.0625],
        "stages_0/layers": [0.125, 0.25],
        "stages_1/layers": [0.5],
        "norm_final": [1.0],
        "head": [1.0],
    }
    both = EncoderDecoder(vocab=7, encoder_depth=2, width=4, depth=1, heads=2, positions=Learned())
    assert factors(both, tokens=TOKENS, source_tokens=TOKENS) == {
        "embed": [0.0625],
        "encoder/positions/table": [0.0625],
        "encoder/layers": [0.125, 0.25],
        "encoder/norm_final": [0.25],
        "decoder/positions/table": [0.25],
        "decoder/layers": [0.5],
        "decoder/norm_final": [1.0],
    }


@pytest.mark.slow
@pytest.mark.parametrize("kind", [AdamW, Lion, SGD, LARS, Adafactor, Muon], ids=lambda k: k.__name__)
def test_layer_decay_is_exact_for_every_optimizer(kind):
    """The update with decay is the update without, times the factor: the moments are the same."""
    shapes, axes, calls = traced(VIT, image=IMAGE)
    params, grads = (jax.tree.map(lambda x, s=seed: jnp.asarray(numbers(*x.shape, seed=s)), shapes) for seed in (1, 2))
    groups = (Group("head/.*", lr=0.5), Group("(?!head/).*"))

    def second_update(params: dict, grads: dict, decay: LayerDecay | None) -> dict:
        optimizer = kind(schedule=Constant(), weight_decay=0.1, groups=groups, layer_decay=decay)
        transform = optimizer.build(10, axes, below(optimizer, shapes, axes, calls))
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


def test_a_model_without_layers():
    model = ConvNet(head=Classes(3, MeanTokens()), width=4, depth=1)
    with pytest.raises(UserError, match=r"config\.optimizer\.layer_decay: expected a model with a stack of layers"):
        below(AdamW(layer_decay=LayerDecay()), *traced(model, image=IMAGE))
