"""Every field that is declared `traced` can be an argument of the step's program."""

import contextlib
import dataclasses
import importlib
import pkgutil
from collections.abc import Iterator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import txjax
from txjax import sharding, tree
from txjax.data import Detections, MatchedCaptions, NextTokenWindows, TextWindows
from txjax.experiment import Experiment
from txjax.models import Stage
from txjax.models.multimodal.vilbert import GridRegions, ViLBERT
from txjax.models.text.bert import Bert
from txjax.models.text.decoder import Decoder
from txjax.models.text.electra import Electra
from txjax.models.vision.conv_net import ConvNet
from txjax.models.vision.detr import DETR
from txjax.models.vision.mae import MAE
from txjax.models.vision.meta_former import MetaFormer
from txjax.models.vision.vit import ViT
from txjax.models.vision.vq_tokenizer import VQTokenizer
from txjax.nn import (
    GPT2,
    Classes,
    FirstToken,
    GroupNorm,
    GroupNormRelu,
    Heads,
    LastToken,
    LayerNorm,
    MaskedPairs,
    MaskedTokens,
    MeanTokens,
    NextSentence,
    Normal,
    ObjectBoxes,
    ProductPooler,
    RegionOutputs,
    ReplacedTokens,
    RMSNorm,
    Rotary,
    Sinusoidal,
    Sinusoidal2D,
    Tied,
)
from txjax.nn.adapters import DoRA, LoRA, RsLoRA
from txjax.objectives import (
    Classification,
    Distillation,
    MaskedPatch,
    MaskedTextAndRegions,
    MaskedToken,
    NextToken,
    ReplacedToken,
    SetPrediction,
    VQReconstruction,
    WithNextToken,
)
from txjax.objectives.losses import CrossEntropy
from txjax.optim import (
    EMA,
    LARS,
    SGD,
    Adafactor,
    AdamW,
    Constant,
    Group,
    LayerDecay,
    Lion,
    Muon,
    Spikes,
)
from txjax.train.population import traced
from txjax.train.state.state import Layout, batch_spec, build_layout
from txjax.train.step import make_step
from txjax.types import spec

from helpers.evaluations import Pictures

SIZES: dict[str, Any] = {"width": 8, "depth": 2, "heads": 2}
TEXT = NextTokenWindows(name="txjax_python_text", length=8)
# All numbers that are off by default are on: the program that leaves them out takes no argument for them.
LOSS = CrossEntropy(label_smoothing=0.1, z_loss=0.01)
GROUPS = Group(r".*(kernel|embedding)", lr=0.5), Group(r"(?!.*(kernel|embedding)$).*", weight_decay=0.5)


class Labelled(TextWindows):
    """Windows with a class each."""

    def spec(self) -> dict[str, jax.ShapeDtypeStruct]:
        return super().spec() | {"label": spec((), "int32"), "weights": spec((), "float32")}


def experiment(optimizer: Any, **fields: Any) -> Experiment:
    optimizer = dataclasses.replace(optimizer, schedule=Constant(warmup_steps=2), groups=GROUPS)
    return Experiment(**dict(data=TEXT, num_steps=6, batch_size=8) | fields, optimizer=optimizer)


def decoder(**fields: Any) -> Decoder:
    return Decoder(vocab=256, **SIZES, **fields)


BERT: dict[str, Any] = {"vocab": 257, **SIZES}
MASKED = MaskedToken(mask_id=256, vocab=256)
# Between them they have every component that declares such a field.
CASES: dict[str, Experiment] = {
    "AdamW": experiment(
        AdamW(weight_decay=0.1, layer_decay=LayerDecay()),
        model=decoder(norm=RMSNorm(), positions=Rotary(), initial=Normal(stddev=0.1)),
        objective=NextToken(loss=LOSS),
        ema=EMA(decay=0.9),
        spikes=Spikes(window=2),
        seed=3,
    ),
    "Lion": experiment(
        Lion(),
        model=ViT(
            **SIZES,
            patch=2,
            head=Classes(3, FirstToken()),
            positions=Sinusoidal(amplitude=0.5),
            norm=GroupNorm(groups=1),
        ),
        objective=Classification(loss=LOSS),
        data=Pictures(split="train"),
    ),
    "SGD": experiment(
        SGD(weight_decay=0.1),
        model=Bert(**BERT, norm=LayerNorm()),
        objective=MaskedToken(mask_id=256, vocab=256, loss=LOSS),
    ),
    "LARS": experiment(
        LARS(weight_decay=0.1),
        model=MAE(
            **SIZES,
            patch=2,
            decoder_width=8,
            decoder_depth=1,
            decoder_heads=2,
            positions=Sinusoidal2D(),
            norm=GroupNormRelu(groups=1),
        ),
        objective=MaskedPatch(),
        data=Pictures(split="train"),
    ),
    "Adafactor": experiment(Adafactor(), model=decoder(initial=GPT2()), objective=NextToken()),
    "Muon": experiment(Muon(), model=decoder(), objective=NextToken()),
    **{
        kind.__name__: experiment(AdamW(), model=decoder(adapter=kind(rank=2)), objective=NextToken())
        for kind in (LoRA, RsLoRA, DoRA)
    },
    "Electra": experiment(
        AdamW(),
        model=Electra(generator=Bert(**BERT), discriminator=Bert(**BERT, head=ReplacedTokens())),
        objective=ReplacedToken(mask_id=256, vocab=256),
    ),
    "Distillation": experiment(
        AdamW(), model=Bert(**BERT), objective=Distillation(teacher=Bert(**BERT), objective=MASKED)
    ),
    "WithNextToken": experiment(
        AdamW(),
        model=decoder(head=Heads({"task": Classes(3, LastToken()), "text": Tied()})),
        objective=WithNextToken(),
        data=Labelled(name="txjax_python_text", length=8),
    ),
    "ConvNet": experiment(
        AdamW(),
        model=ConvNet(width=8, depth=1, head=Classes(3, MeanTokens())),
        objective=Classification(),
        data=Pictures(split="train"),
    ),
    "DETR": experiment(
        AdamW(),
        model=DETR(**SIZES, backbone=MetaFormer(stages=(Stage(8, 1),)), queries=3, head=ObjectBoxes(10)),
        objective=SetPrediction(),
        data=Detections(name="txjax_canvases", shape=(16, 16, 1)),
    ),
    "ViLBERT": experiment(
        AdamW(),
        model=ViLBERT(
            **SIZES,
            text=Bert(**BERT, head=None),
            regions=GridRegions(patch=8),
            head=MaskedPairs(MaskedTokens(next_sentence=NextSentence(ProductPooler(8))), RegionOutputs(64)),
        ),
        objective=MaskedTextAndRegions(mask_id=256, vocab=256),
        data=MatchedCaptions(name="txjax_canvases", text="{count}", length=8, shape=(16, 16, 1)),
    ),
    "VQTokenizer": experiment(
        AdamW(),
        model=VQTokenizer(
            width=4, depth=1, multipliers=(1, 2), codes=5, code_size=3, channels=1, norm=GroupNorm(groups=2)
        ),
        objective=VQReconstruction(),
        data=Pictures(split="train"),
    ),
}


def declared(kind: type) -> set[tuple[str, str]]:
    return {(kind.__name__, field.name) for field in dataclasses.fields(kind) if field.metadata.get("traced")}


def taken(experiment: Experiment) -> set[tuple[str, str]]:
    """The class and the name of every field that the program of this experiment takes."""
    nodes = dict(tree.walk(experiment))
    paths = [path.rpartition(".") for path in traced.arguments(experiment)]
    return {(type(nodes[parent]).__name__, name) for parent, _, name in paths}


def test_the_cases_have_every_field_that_is_declared():
    kinds = set()
    for info in pkgutil.walk_packages(txjax.__path__, "txjax."):
        if info.name.startswith(("txjax.optim", "txjax.objectives", "txjax.nn", "txjax.models", "txjax.experiment")):
            kinds |= {kind for kind in vars(importlib.import_module(info.name)).values() if isinstance(kind, type)}
    wanted = {pair for kind in kinds if dataclasses.is_dataclass(kind) for pair in declared(kind)}
    bases = {("Optimizer", name) for name in ("peak_lr", "weight_decay", "clip")} | {("Norm", "eps")}
    assert wanted - bases == {pair for case in CASES.values() for pair in taken(case)}
    assert len(wanted) > 50


@contextlib.contextmanager
def ready(experiment: Experiment) -> Iterator[tuple[Layout, Any]]:
    """The layout, and the step as a function of (values of the arguments, state, batch); traced inside."""
    with sharding.use_mesh(experiment.mesh, jax.devices()[:1]) as built:

        def step(values: traced.Values, state: Any, batch: Any) -> Any:
            mine = traced.member(experiment, values)
            return make_step(mine, build_layout(mine, built))(state, batch)

        yield build_layout(experiment, built), step


def alone(experiment: Experiment) -> traced.Values:
    """The values of all arguments that its program can take."""
    nodes = dict(tree.walk(experiment))
    numbers = {path: jnp.asarray(nodes[path]) for path in traced.arguments(experiment)}
    return numbers | {path: rows[0] for path, rows in traced.traced_values([experiment]).items()}


@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
def test_the_step_traces_with_all_of_them_as_arguments(name):
    case = CASES[name]
    with ready(case) as (layout, step):
        batch = batch_spec(case.data, case.batch_size)
        state, metrics = jax.eval_shape(step, alone(case), layout.abstract, batch)
    found, wanted = (jax.tree.map(lambda x: (x.shape, x.dtype), tree) for tree in (state, layout.abstract))
    assert found == wanted and metrics["loss"].shape == ()


def test_arguments_give_the_numbers_of_the_values():
    case = CASES["AdamW"]
    rng = np.random.default_rng(0)
    spec = batch_spec(case.data, case.batch_size)
    batch = {key: rng.integers(0, 2, x.shape).astype(x.dtype) for key, x in spec.items()}
    with ready(case) as (layout, step):
        state = jax.jit(layout.init)(jax.random.key(case.seed))
        mine = jax.jit(step)(alone(case), state, batch)
        theirs = jax.jit(make_step(case, layout))(state, batch)
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-6), mine, theirs)


def test_a_number_at_which_something_is_left_out_is_a_program_of_its_own():
    off, on, more = (
        dataclasses.replace(CASES["Muon"], objective=NextToken(loss=CrossEntropy(z_loss=z))) for z in (0.0, 0.1, 0.2)
    )
    assert traced.populations([off, on, more]) == [[0], [1, 2]]
