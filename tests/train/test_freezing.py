"""A frozen backbone with a trained head: no moments, no gradients, nothing moved."""

import jax
import numpy as np
import pytest

from txjax import flops, sharding
from txjax.checkpoint import Store
from txjax.data import Conversations
from txjax.experiment import Experiment
from txjax.models.multimodal.llava import LLaVA
from txjax.models.multimodal.two_towers import CLIPImageTower
from txjax.models.vision.vit.vit import ViT
from txjax.nn import Classes, FirstToken, Stack
from txjax.objectives import NextToken
from txjax.optim import AdamW, Constant, Group, train_all_but
from txjax.train.run_eval import shard_batch
from txjax.train.state.counting import flops_per_step
from txjax.train.state.state import batch_spec, build_layout
from txjax.train.step import jit_step, make_step
from txjax.types import flat_paths

from helpers import tiny_experiments
from helpers.arrays import numbers, shapes

pytestmark = pytest.mark.claim("Transfer", "no moments, gradients and FLOPs of frozen parameters")

FROZEN = (Group(r"head/.*"), Group(r"(?!head/).*", trainable=False))
HEAD = 32 * 10 + 10


def experiment(groups=None) -> Experiment:
    optimizer = AdamW(schedule=Constant(), **({"groups": groups} if groups else {}))
    return tiny_experiments.vit(
        model=ViT(patch=4, head=Classes(10, FirstToken()), width=32, depth=2, heads=2), optimizer=optimizer
    )


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """The state before and after two updates of the head alone, and the folder where it was saved."""
    exp, folder = experiment(FROZEN), tmp_path_factory.mktemp("probe")
    data = {"image": numbers(8, 8, 8, 1), "label": np.arange(8, dtype=np.int32), "id": np.arange(8, dtype=np.int32)}
    data["weights"] = np.ones(8, np.float32)
    with sharding.use_mesh(exp.mesh) as built:
        layout = build_layout(exp, built)
        state, step = layout.create(0), jit_step(exp, layout)
        before = jax.device_get(state)
        for _ in range(2):
            state, _ = step(state, shard_batch(data, layout.batch))
        store = Store(folder)
        store.save(2, state, {})
        store.wait()
    return before, state, store


def test_only_the_head_moves(trained):
    before, after, _ = trained
    assert set(after.params) == {"head"}
    for path, x in flat_paths(after.frozen).items():
        np.testing.assert_array_equal(x, flat_paths(before.frozen)[path], err_msg=path)
    assert (np.asarray(after.params["head"]["kernel"]) != before.params["head"]["kernel"]).any()


def test_moments_are_the_heads_alone_in_memory_and_on_disk(trained):
    _, state, store = trained
    sizes = [x.nbytes for x in jax.tree.leaves(state.opt_state)]
    assert sum(sizes) == 2 * 4 * HEAD + 2 * 4  # two float32 moments, and two counters
    files = [p for p in (store.path(2) / "arrays" / "training").rglob("*") if p.is_file()]
    frozen = sum(x.nbytes for x in jax.tree.leaves(state.frozen))
    assert sum(p.stat().st_size for p in files) < frozen
    moments = [p for p in store.record(2)["arrays"] if p.startswith("training/opt_state") and "/head/" in p]
    assert len(moments) == 4


def test_gradients_of_frozen_parameters_are_never_computed():
    """One forward pass of the backbone and hardly more: its backward pass would cost twice as much again."""
    operations: dict[str, int] = {}
    found: dict[str, int] = {}
    for name, groups in (("all", None), ("head", FROZEN)):
        exp = experiment(groups)
        with sharding.use_mesh(exp.mesh) as built:
            layout = build_layout(exp, built)
            batch = batch_spec(exp.data, exp.batch_size)
            lowered = jax.jit(make_step(exp, layout)).lower(layout.abstract, batch)
            operations[name] = lowered.cost_analysis()["flops"]
            found[name] = flops_per_step(exp)
    forward = found["all"] / 3
    assert forward <= found["head"] < 1.1 * forward
    assert operations["head"] < 0.45 * operations["all"]


@pytest.mark.parametrize("microbatches", [1, 4])
def test_a_frozen_tower_runs_forward_and_once_for_each_example(microbatches):
    """An update has the products of one forward pass of the tower, up to the layer that is read, and no more."""
    tower = CLIPImageTower(patch=4, width=16, depth=3, heads=2, stack=Stack(outputs=(-2,)))
    exp = Experiment(
        model=LLaVA(vocab=13, width=8, depth=2, heads=2, image_token=12, vision=tower),
        objective=NextToken(),
        data=Conversations(name="txjax_canvases", shape=(8, 8, 1), length=12),
        optimizer=AdamW(groups=train_all_but("vision/.*")),
        batch_size=8,
        microbatches=microbatches,
    )
    images = numbers(8, 8, 8, 1)
    once = flops.count(lambda variables: tower.apply(variables, images).features, shapes(tower, images))
    with sharding.use_mesh(exp.mesh) as built:
        layout = build_layout(exp, built)
        step = flops.prune_function(make_step(exp, layout))
        by_scope = flops.by_scope(step, layout.abstract, batch_spec(exp.data, exp.batch_size))
    of_tower = sum(count for scope, count in by_scope.items() if "vision" in scope)
    assert of_tower == once > 0
    assert sum(by_scope.values()) > of_tower
