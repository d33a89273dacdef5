"""What every family of models gets from the spine: exact resume, microbatches, populations, meshes, transfer.

A family is a model with an objective, an adapter if there is one, and a stack of its own kind. Configs of `configs/`
that have each of these parts at least once are found, and made tiny. (Other pairs of them are in `test_contracts.py`.)
"""

import ast
import dataclasses
import functools
import re
import shutil
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest

from txjax import config, sharding
from txjax.checkpoint import Checkpoints
from txjax.data import Dataset, fingerprint, train_batches
from txjax.experiment import Experiment, with_default_eval_data
from txjax.log import read_metrics
from txjax.models.model import models_inside
from txjax.models.vision.rep_lk_net import ParallelKernels
from txjax.nn import Attention, BatchNorm, DepthwiseConv, Mixer, PeriodicStack
from txjax.objectives import PromptedMasks
from txjax.optim import SGD, Constant
from txjax.plan.minimum import least
from txjax.sharding import Mesh
from txjax.train.population.population import train_together
from txjax.train.run_eval import shard_batch
from txjax.train.state.counting import flops_per_step
from txjax.train.state.init_from import find_init_source
from txjax.train.state.state import Layout, build_layout
from txjax.train.step import jit_step
from txjax.train.trainer import train
from txjax.tree import walk
from txjax.types import TrainState

from selection import Item, describe_config, per_family

pytestmark = pytest.mark.claim(
    "Models and objectives",
    "resume, microbatches, populations, meshes and transfer, for configs that have every model, objective, adapter "
    "and kind of stack",
)

ROOT = Path(__file__).parents[1]
TFDS = ROOT.parent / "shared" / "tfds"
EMBEDDED = {"txjax_python_text", "txjax_digits", "txjax_canvases", "txjax_shakespeare"}
SMALL = {
    "width": 16,
    "depth": 2,
    "heads": 2,
    "decoder_width": 16,
    "decoder_depth": 1,
    "decoder_heads": 2,
    "dropout": 0.0,
}
INSIDE = ("generator", "discriminator", "encoder", "backbone", "vision", "text")
SMALL_TEACHER = {"width": 16, "depth": 3, "heads": 4}
B = 8
B_NORMED = 32  # two microbatches of the configs' groups of batch normalization
STEPS = 4
LR = 1e-3  # with larger ones rounding grows over the steps, most of all under batch normalization
SUMS = {"rtol": 1e-4, "atol": 1e-6}  # of a few updates: sums in another order
NORMS = {"rtol": 1e-3, "atol": 1e-6}  # of gradients, which large kernels under batch normalization carry further apart


def data_sets(experiment: Experiment) -> set[str]:
    """The names of the data sets that a config trains on, or of their sources."""
    sets = [node for _, node in walk(experiment.data) if isinstance(node, Dataset) and hasattr(node, "name")]
    return {node.name if node.source is None else str(node.source) for node in sets}


@functools.cache
def families() -> dict[str, str]:
    """Families that have every part at least once, with configs whose data are at hand.

    Embedded data and tiny models come first.
    """
    available = EMBEDDED | {path.name for path in TFDS.glob("*") if path.is_dir()}
    found: dict[tuple[bool, bool, str], Experiment] = {}
    for source in sources():
        experiment = config.load(str(ROOT / source), [])
        if {name.partition("/")[0] for name in data_sets(experiment)} <= available:
            small = any(word in source for word in ("tiny", "digits"))
            found[not data_sets(experiment) <= EMBEDDED, not small, source] = experiment
    chosen: dict[str, str] = {}
    seen: set[str] = set()
    for (_, _, source), experiment in sorted(found.items(), key=lambda item: item[0]):
        if not seen.issuperset(parts := parts_of(experiment)):
            chosen[" ".join(parts)] = source
            seen.update(parts)
    return chosen


def sources() -> list[str]:
    """All configs, with their variants."""
    found = []
    for path in sorted((ROOT / "configs").rglob("*.py")):
        source, variants = (
            str(path.relative_to(ROOT)),
            re.search(r"^VARIANTS = (\(.*?\))$", path.read_text(), re.MULTILINE | re.DOTALL),
        )
        found += [source, *(f"{source}:{name}" for name in (ast.literal_eval(variants[1]) if variants else ()))]
    return found


def parts_of(experiment: Experiment) -> list[str]:
    """The names of a family's parts."""
    model = experiment.model
    words = [type(part).__name__ for part in (model, experiment.objective, model.adapter) if part]
    mixer = getattr(model, "mixer", None)
    words += ["in-turn"] * isinstance(mixer, tuple)
    words += [type(mixer).__name__] * (isinstance(mixer, Mixer) and not isinstance(mixer, Attention))
    return words + ["shared"] * bool(getattr(getattr(model, "stack", None), "groups", None))


def tiny(family: str) -> Experiment:
    """The family's config with a small model and few steps, without evaluations.

    Without dropout, whose draws depend on the microbatch, and without buckets, of which a population has one. Updates
    are proportional to gradients, so rounding stays as small as it is in them; AdamW's are not, and its program is
    longer. (Every optimizer trains in `train/test_population.py`; kills of AdamW's runs are in `commands/`.)
    """
    experiment = with_default_eval_data(config.load(str(ROOT / families()[family]), []))
    model = experiment.model
    for _, node in walk(experiment.data):
        if getattr(node, "__dict__", {}).get("buckets"):
            node.buckets, node.sort_batches = (), 1
    objective = experiment.objective
    if (teacher := getattr(objective, "teacher", None)) is not None:
        objective = dataclasses.replace(objective, teacher=teacher.clone(**SMALL_TEACHER))
    if isinstance(objective, PromptedMasks):
        objective = dataclasses.replace(objective, clicks=2, refinements=0)
    return dataclasses.replace(
        experiment,
        model=small(model),
        objective=objective,
        optimizer=SGD(peak_lr=LR, schedule=Constant(), groups=experiment.optimizer.groups),
        checkpoint=Checkpoints(every_steps=2, keep=2),
        num_steps=STEPS,
        batch_size=B_NORMED if any(isinstance(node, BatchNorm) for _, node in walk(model)) else B,
        microbatches=1,
        log_every_steps=1,
        evals={},
        trackers=(),
        init_from=None,
    )


def small(model: Any) -> Any:
    """The model in small, and those that it trains together."""
    sizes: dict[str, Any] = {name: value for name, value in SMALL.items() if hasattr(model, name)}
    sizes |= {name: small(inner) for name, inner in models_inside(model) if name in INSIDE}
    if hasattr(sizes.get("encoder"), "patch"):
        sizes["encoder"] = sizes["encoder"].clone(patch=2 * sizes["encoder"].patch)  # a quarter of the patches
    if isinstance(getattr(model, "stack", None), PeriodicStack):
        kinds = model.mixers()
        sizes["mixer"] = tuple(kind for i, kind in enumerate(kinds) if kind not in kinds[:i])  # a layer of each
        sizes["depth"] = len(sizes["mixer"])
    if isinstance(stages := getattr(model, "stages", None), tuple):
        depth = len(model.mixers())  # a layer of each kind
        sizes["stages"] = tuple(dataclasses.replace(stage, width=32, depth=depth) for stage in stages[:2])
    if hasattr(model, "stack"):
        sizes["stack"] = model.stack.clone(unroll=1)  # compiles one layer where it may
    if hasattr(model, "sides"):
        sizes["sides"] = tuple(5 for _ in sizes["stages"])
        sizes["mixer"] = model.mixer.clone(kernel=ParallelKernels(small=3))
    if isinstance(getattr(model, "mixer", None), DepthwiseConv):
        sizes["mixer"] = model.mixer.clone(side=3)  # a program on CPUs grows with the kernel
    if getattr(getattr(model, "block", None), "drop_path", 0.0):
        sizes["block"] = model.block.clone(drop_path=0.0)
    return model.clone(**sizes)


def rows(workdir: Path) -> list[dict[str, Any]]:
    """The rows of a run without clocks."""
    return [
        {k: v for k, v in row.items() if k != "time" and not k.startswith(("perf/", "goodput"))}
        for row in read_metrics(workdir)
    ]


def assert_close(found: list[dict[str, Any]], wanted: list[dict[str, Any]]) -> None:
    """Losses and gradient norms are equal to rounding; the examples are the same."""
    assert [row["train/batch_hash"] for row in found] == [row["train/batch_hash"] for row in wanted]
    for name, limits in (("train/loss", SUMS), ("train/grad_norm", NORMS)):
        np.testing.assert_allclose([row[name] for row in found], [row[name] for row in wanted], **limits, err_msg=name)


every_family = pytest.mark.parametrize("family", families())


def describe(family: str) -> Item:
    """The item of a family, for the selection of a change."""
    return describe_config(families()[family])


@pytest.fixture
def data(monkeypatch: pytest.MonkeyPatch, tfds: Path | None) -> None:
    if tfds is not None:
        monkeypatch.setenv("TFDS_DATA_DIR", str(tfds))


@pytest.mark.slow
@per_family("family", describe, seconds=20, budget=40)
@every_family
def test_resume_microbatches_and_transfer(family: str, tmp_path: Path, data: None) -> None:
    experiment = tiny(family)
    assert train(experiment, tmp_path / "run") == 0
    wanted = rows(tmp_path / "run")
    assert len(wanted) == STEPS

    # As a run that was killed before its last checkpoint was complete.
    shutil.copytree(tmp_path / "run", tmp_path / "killed")
    shutil.rmtree(tmp_path / "killed" / "checkpoints" / str(STEPS))
    assert train(experiment, tmp_path / "killed") == 0
    assert rows(tmp_path / "killed") == wanted

    started = dataclasses.replace(experiment, init_from=str(tmp_path / "run"))
    with sharding.use_mesh(started.mesh) as built:
        layout = build_layout(started, built)
        source = find_init_source(started, layout)
        state = jax.device_get(layout.create(experiment.seed))
    assert source is not None and {row.action for row in source.rows} == {"loaded"}
    parts = run_steps(dataclasses.replace(experiment, microbatches=2), Mesh(), 1, state, layout)
    assert_close(parts, wanted[: len(parts)])


@pytest.mark.slow
@per_family("family", describe, seconds=20, cover=False, least=2)
@every_family
def test_a_population_in_microbatches(family: str, tmp_path: Path, data: None) -> None:
    """A member has the losses of its run alone."""
    experiment = dataclasses.replace(tiny(family), checkpoint=Checkpoints(every_steps=STEPS))
    assert train(experiment, tmp_path / "run") == 0
    first = dataclasses.replace(experiment, microbatches=2)
    second = dataclasses.replace(first, seed=first.seed + 1)
    assert train_together([first, second], [tmp_path / "first", tmp_path / "second"]).code == 0
    assert_close(rows(tmp_path / "first"), rows(tmp_path / "run"))
    assert rows(tmp_path / "second")[0]["train/loss"] != rows(tmp_path / "run")[0]["train/loss"]


@pytest.mark.slow
@pytest.mark.mesh
@per_family("family", describe, seconds=15, cover=False, least=4)
@every_family
def test_eight_devices_give_the_losses_of_one(family: str, data: None, capfd: pytest.CaptureFixture) -> None:
    experiment = tiny(family)
    mesh = Mesh(data=2, fsdp=2, tensor=2, rules={"vocab": ()})  # vocabularies of bytes and special tokens are odd
    with sharding.use_mesh(experiment.mesh, jax.devices()[:1]) as built:
        layout = build_layout(experiment, built)
        state = jax.device_get(layout.create(experiment.seed))
    assert_close(run_steps(experiment, mesh, 8, state, layout), run_steps(experiment, Mesh(), 1, state, layout))
    assert "Involuntary full rematerialization" not in capfd.readouterr().err


def run_steps(
    experiment: Experiment, mesh: Mesh, devices: int, initial: TrainState, like: Layout
) -> list[dict[str, Any]]:
    """Three steps on the family's own data. The plan's lower bound of what is sent is 0 on one device alone."""
    experiment = dataclasses.replace(experiment, mesh=mesh)
    with sharding.use_mesh(mesh, jax.devices()[:devices]) as built:
        layout = build_layout(experiment, built, like.trace)
        assert (sum(least(experiment, layout).values()) > 0) == (devices > 1)
        assert flops_per_step(experiment, layout.variables) > 0
        state = jax.device_put(initial, jax.tree.map(lambda x: x.sharding, layout.abstract))
        step, results = jit_step(experiment, layout), []
        batches = train_batches(experiment.data.open(), batch_size=experiment.batch_size, seed=experiment.seed)
        for step_number in range(1, 4):
            batch = next(batches)
            state, metrics = step(state, shard_batch(batch, layout.batch))
            numbers = {f"train/{name}": float(metrics[name]) for name in ("loss", "grad_norm")}
            results.append({"train/batch_hash": fingerprint(batch["id"], step_number), **numbers})
        batches.close()
    return results
