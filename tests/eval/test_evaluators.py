"""The contract of all evaluators of the package. A new file is found and tested automatically."""

import dataclasses
import importlib
import importlib.util
import inspect
import json
import math
import pkgutil
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import txjax.eval
from txjax import tree
from txjax.data import NextTokenWindows, Pairs
from txjax.eval import EvalSetup, Evaluator
from txjax.experiment import Experiment
from txjax.models import Stage
from txjax.models.text.decoder.decoder import Decoder
from txjax.models.text.encoder_decoder.encoder_decoder import EncoderDecoder
from txjax.models.vision.detr import DETR
from txjax.models.vision.mae.mae import MAE
from txjax.models.vision.mask_git.mask_git import mask_git
from txjax.models.vision.meta_former import MetaFormer
from txjax.models.vision.sam.sam import SAM
from txjax.models.vision.vit.vit import ViT
from txjax.models.vision.vq_tokenizer.vq_tokenizer import VQTokenizer
from txjax.nn import MLP, ConvEmbedding, GroupNorm, ObjectBoxes
from txjax.objectives import (
    Classification,
    MaskedPatch,
    MaskedVisualTokens,
    NextToken,
    PromptedMasks,
    SetPrediction,
    TokenClassification,
    VQReconstruction,
)
from txjax.optim import AdamW, train_all_but
from txjax.sharding import Mesh
from txjax.train.check import check
from txjax.train.population.traced import with_values
from txjax.types import UserError

from helpers.arrays import variables
from helpers.evaluations import HELD, Net, Pictures, Scenes, Tagged, Tagger, measure
from selection import describe_class, per_family

pytestmark = [
    pytest.mark.mesh,
    pytest.mark.claim("Evaluation", "every evaluator, and new ones; the results of the examples give its scores again"),
]

TEXT = NextTokenWindows(name="txjax_python_text", split="validation", length=16)
WRITER = Decoder(vocab=256, width=8, depth=1, heads=1)
PATHS = Pairs("txjax_python_text", "validation", None, "{path}", "{path}", source_length=8, length=6)
TRANSLATOR = EncoderDecoder(vocab=258, width=8, depth=1, heads=1)
PAINTER = MAE(patch=2, width=8, depth=1, heads=2, decoder_width=8, decoder_depth=1, decoder_heads=2)
TOKENIZER = VQTokenizer(
    width=4, depth=1, multipliers=(1, 2), codes=5, code_size=3, channels=1, norm=GroupNorm(groups=2)
)
VISUAL = MaskedVisualTokens(tokenizer=TOKENIZER, classes=3)
DETECTOR = DETR(
    backbone=MetaFormer(stages=(Stage(8, 1),), stem=ConvEmbedding()),
    queries=2,
    width=8,
    depth=1,
    heads=2,
    head=ObjectBoxes(3),
)
SEGMENTER = SAM(
    encoder=ViT(patch=2, width=8, depth=1, heads=2), width=8, depth=1, heads=2, mlp=MLP(hidden=8, activation="relu")
)
# Values for the fields of an evaluator that make it fast.
FIELDS = {"length": 3, "max_train": 30, "count": 4, "clicks": 2, "translations": Pictures(), "limit": 4}
# Without their package, and on data that no embedded set has: each has a test file of its own.
EXTRAS = {"Entities": "seqeval", "Harness": "lm_eval"}
MISSING = {kind for kind, name in EXTRAS.items() if importlib.util.find_spec(name) is None}
ELSEWHERE = {
    "CrossRetrieval",
    "ErrorRates",
    "ExtractedAnswers",
    "GeneratedAnswers",
    "ImageTextRetrieval",
    "Prompted",
    "ZeroShot",
} | MISSING
RUNS = {
    "text": Experiment(model=WRITER, objective=NextToken(), data=TEXT, batch_size=16),
    "pairs": Experiment(model=TRANSLATOR, objective=NextToken(), data=PATHS, batch_size=16),
    "classes": Experiment(model=Net(), objective=Classification(), data=Pictures(split="train"), batch_size=16),
    "words": Experiment(model=Tagger(), objective=TokenClassification(), data=Tagged(), batch_size=16),
    "objects": Experiment(model=SEGMENTER, objective=PromptedMasks(1, 0), data=Scenes(), batch_size=16),
    "boxes": Experiment(model=DETECTOR, objective=SetPrediction(), data=Scenes(), batch_size=16),
    "patches": Experiment(model=PAINTER, objective=MaskedPatch(), data=Pictures(), batch_size=16),
    "codes": Experiment(model=TOKENIZER, objective=VQReconstruction(), data=Pictures(), batch_size=16),
    "visual": Experiment(
        model=mask_git(5, 3, 4, width=8, depth=1, heads=2),
        objective=VISUAL,
        data=Pictures(),
        optimizer=AdamW(groups=train_all_but("tokenizer/.*")),
        batch_size=16,
    ),
}
# Runs that are for these evaluators alone, to save time.
ALONE = {
    "boxes": {"AveragePrecision", "DetectedObjects"},
    "codes": {"CodebookUsage", "Reconstructions"},
    "visual": {"ClassSamples"},
}
EXAMPLES = {
    "text": TEXT,
    "pairs": PATHS,
    "classes": Pictures(),
    "words": Tagged(),
    "objects": Scenes(),
    "boxes": Scenes(),
} | dict.fromkeys(("patches", "codes", "visual"), Pictures())


def variables_of(name: str):
    if name in ("classes", "words"):
        return HELD
    tokens, image = np.zeros((1, 4), np.int32), np.zeros((1, 4, 4, 1), np.float32)
    given = {"text": [tokens], "pairs": [tokens, tokens], "visual": [tokens]} | dict.fromkeys(
        ("patches", "codes", "objects", "boxes"), [image]
    )
    more = {"mask": np.zeros((1, 1, 8, 8), np.float32)} if name == "objects" else {}
    made = jax.tree.map(jnp.asarray, variables(RUNS[name].model, *given[name], **more))
    if name == "visual":
        made["params"]["tokenizer"] = variables_of("codes")["params"]
    return made


def kinds() -> list[type[Evaluator]]:
    found = set()
    for info in pkgutil.walk_packages(txjax.eval.__path__, "txjax.eval."):
        for value in vars(importlib.import_module(info.name)).values():
            if inspect.isclass(value) and issubclass(value, Evaluator) and value not in (Evaluator, *value.__bases__):
                found.add(value)
    kept = (kind for kind in found if not kind.__subclasses__() and kind.__name__ not in ELSEWHERE)
    return sorted(kept, key=lambda kind: kind.__name__)


def build(kind: type[Evaluator], name: str, **fields) -> Evaluator:
    names = {field.name for field in dataclasses.fields(kind)}
    return kind(data=EXAMPLES[name], **{k: v for k, v in FIELDS.items() if k in names} | fields)


def suits(kind: type[Evaluator], name: str) -> bool:
    """Whether the run passes with it. Pairs are for evaluators that read sources; the others have the other text."""
    if kind.__name__ not in ALONE.get(name, {kind.__name__}):
        return False
    evaluator = build(kind, name)
    keys = evaluator.required_keys(RUNS[name].objective)
    if name == "pairs" and not any("source_tokens" in key.split(" | ") for key in keys):
        return False
    try:
        check(dataclasses.replace(RUNS[name], evals={"x": evaluator}))
    except UserError:
        return False
    return True


def test_every_evaluator_is_tested():
    assert len(kinds()) >= 8
    assert {kind for kind in kinds() if any(suits(kind, name) for name in RUNS)} == set(kinds())


def other(value: bool | float | str) -> bool | float | str:
    """A value of the same type that is not equal."""
    return not value if isinstance(value, bool) else value + "x" if isinstance(value, str) else value + 1


@pytest.mark.parametrize("kind", kinds())
def test_equal_evaluators_share_a_program_and_no_others_do(kind):
    name = next(name for name in RUNS if suits(kind, name))
    one = build(kind, name)
    run = RUNS[name]
    programs: dict[Any, Any] = {}

    def program(evaluator: Evaluator, *more: Any) -> Any:
        placed = jax.NamedSharding(jax.sharding.Mesh(np.array(jax.devices()[:1]), ("data",)), jax.P())
        setup = EvalSetup(
            evaluator=evaluator,
            model=run.model,
            objective=run.objective,
            seed=run.seed,
            train=run.data,
            batch_size=16,
            sharding=placed,
            programs=programs,
        )
        return setup.program(lambda variables, batch: batch, *more)

    assert program(one) is program(build(kind, name)) is not program(one, 2)
    leaves = {path: value for path, value in tree.walk(one, "config") if isinstance(value, bool | float | int | str)}
    assert len(leaves) >= 3
    changed = [with_values(one, {path: other(value)}) for path, value in leaves.items()]
    assert len({id(program(evaluator)) for evaluator in (one, *changed)}) == 1 + len(changed)


@per_family("kind", describe_class, seconds=5, cover=False, least=4)
@pytest.mark.parametrize("kind", kinds())
def test_contract(kind, tmp_path):
    """Scores are finite numbers that neither batches, nor hosts' devices, nor an earlier evaluation change; the results
    of the examples give them again."""
    for name in RUNS:
        if not suits(kind, name):
            continue
        run, evaluator = RUNS[name], build(kind, name)
        written = json.dumps(tree.to_json(evaluator))
        assert json.dumps(tree.to_json(tree.from_json(json.loads(written), ("helpers",)))) == written
        assert not [field.name for field in tree.config_fields(evaluator) if isinstance(field.type, str)]
        limit = {"max_batches": 4} if name == "text" else {}  # 64 windows of many
        found = []
        for i, fields in enumerate(({}, {"batch_size": 8, "max_batches": 8} if limit else {"batch_size": 40})):
            evaluation = build(kind, name, **limit | fields)
            folder = tmp_path / str(i)
            mesh = Mesh(data=2, fsdp=4) if i else None
            results: dict[str, Any] | None = {} if i else None
            fixed = evaluation, variables_of(name), folder, mesh, results
            scores = measure(run.model, run.objective, *fixed, data=run.data)
            if results:
                again = evaluation.rescore(results["x"])
                assert again == pytest.approx({name: scores[name] for name in again}, rel=1e-5)
                assert len({*results["x"]["id"].tolist()}) == len(results["x"]["id"])
            assert all(type(value) is float and math.isfinite(value) for value in scores.values())
            files = {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}
            assert scores or files
            assert all(path.split("/")[1] == "x" and path.split("/")[2].startswith("7.") for path in files)
            found.append((scores, files))
        assert found[0][0] == pytest.approx(found[1][0], rel=1e-5)
        assert found[0][1] == found[1][1]
