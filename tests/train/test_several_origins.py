"""Two towers that start from two runs of their own, with equal names in both."""

import json
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from txjax import sharding, tree
from txjax.checkpoint import Checkpoints, Store
from txjax.checkpoint.origins import origins_of_record
from txjax.experiment import Experiment
from txjax.models.model import Model
from txjax.models.vision.vit.vit import ViT
from txjax.nn import Classes, FirstToken
from txjax.optim import AdamW, Constant, Group
from txjax.sharding import Mesh
from txjax.train.state.init_from import find_init_source
from txjax.train.state.state import Layout, build_layout, model_variables
from txjax.transfer import Every, From
from txjax.types import UserError, flat_paths

from helpers import tiny_experiments
from helpers.arrays import fill, numbers

pytestmark = pytest.mark.claim("Transfer", "towers from runs of their own, with equal outputs")

IMAGE = jnp.asarray(numbers(2, 8, 8, 1))
FSDP = Mesh(data=1, fsdp=8)


class Towers(Model, kw_only=True):
    """The sum of the logits of two classifiers."""

    left: ViT
    right: ViT

    def __call__(self, image, train: bool = False):
        return self.left(image, train=train) + self.right(image, train=train)


def vit(depth: int = 1) -> ViT:
    return ViT(patch=4, head=Classes(10, FirstToken()), width=16, depth=depth, heads=2)


def towers(**fields) -> Experiment:
    groups = (Group("right/head/.*"), Group("(?!right/head/).*", trainable=False))
    own = dict(model=Towers(left=vit(), right=vit()), mesh=FSDP, seed=9)
    return tiny_experiments.vit(**own | {"optimizer": AdamW(schedule=Constant(), groups=groups)} | fields)


def save(workdir: Path, experiment: Experiment) -> Path:
    """A run of which one step is saved: numbers by its seed."""
    with sharding.use_mesh(experiment.mesh) as built:
        store = Store(workdir, experiment.checkpoint)
        store.save(1, fill(build_layout(experiment, built).abstract, experiment.seed), {})
        store.wait()
    (workdir / "config.json").write_text(json.dumps(tree.to_json(experiment)))
    return workdir


def weights(experiment: Experiment):
    """What `save` saved of it."""
    with sharding.use_mesh(experiment.mesh) as built:
        return jax.device_get(model_variables(fill(build_layout(experiment, built).abstract, experiment.seed)))


def begun(experiment: Experiment):
    with sharding.use_mesh(experiment.mesh) as built:
        layout = build_layout(experiment, built)
        return jax.device_get(model_variables(find_init_source(experiment, layout).begin(experiment, layout)))["params"]


@pytest.fixture(autouse=True)
def nothing_is_weights(monkeypatch):
    """Fresh parameters are numbers that need no compile."""
    monkeypatch.setattr(Layout, "create", lambda self, seed: fill(self.abstract, seed))


@pytest.fixture(scope="module")
def origins(tmp_path_factory) -> tuple[Path, Path]:
    folder = tmp_path_factory.mktemp("towers")
    deep = tiny_experiments.vit(model=vit(2), seed=2)
    return save(folder / "a", tiny_experiments.vit(model=vit(), seed=1)), save(folder / "b", deep)


@pytest.mark.mesh
def test_each_tower_computes_what_its_run_does(origins, tmp_path, capsys):
    one, other = origins
    exp = towers(
        init_from=(From(str(one), here="left"), From(str(other), here="right", resize=(Every(2),))),
        checkpoint=Checkpoints(frozen="origin"),
    )
    with sharding.use_mesh(exp.mesh) as built:
        layout = build_layout(exp, built)
        source = find_init_source(exp, layout)
        state = source.begin(exp, layout)
        for path, place in flat_paths((layout.abstract.params, layout.abstract.frozen)).items():
            x = flat_paths((state.params, state.frozen))[path]
            assert x.sharding.is_equivalent_to(place.sharding, place.ndim), path
        found = jax.device_get(model_variables(state))
        # A checkpoint without the left tower, and without what is not resized of the right one.
        store = Store(tmp_path / "run", exp.checkpoint)
        store.origins = source.frozen()
        store.save(1, state, {})
        store.wait()
        again = jax.device_get(model_variables(Store(tmp_path / "run", exp.checkpoint).restore(layout.abstract)[0]))
    jax.tree.map(np.testing.assert_array_equal, found, again)
    left, right = origins_of_record(store.record(1))
    assert (left.run, right.run) == (str(one), str(other))
    assert {at.split("/")[2] for at in left.arrays} == {"left"} and not any("layers" in at for at in right.arrays)

    expected = [weights(tiny_experiments.vit(model=vit(depth), seed=seed)) for depth, seed in ((1, 1), (2, 2))]
    half = jax.tree.map(lambda x: x[::2], expected[1]["params"]["layers"])
    expected[1]["params"] = expected[1]["params"] | {"layers": half}
    outputs = [vit().apply(each, IMAGE) for each in expected]
    for name, output in zip(("left", "right"), outputs, strict=True):
        tower = exp.model.apply(found, IMAGE, method=lambda model, image, name=name: getattr(model, name)(image))
        np.testing.assert_array_equal(tower, output)
    np.testing.assert_allclose(exp.model.apply(found, IMAGE), sum(outputs), rtol=1e-6)

    source.show(tmp_path)
    out = " ".join(capsys.readouterr().out.split())
    for words in (f"left/ from {one} at step 1", f"right/ from {other} at step 1", "resized from [2, 16]"):
        assert words in out, out
    written = json.loads((tmp_path / "transfer.json").read_text())["origins"]
    assert [(each["run"], each["here"]) for each in written] == [(str(one), "left"), (str(other), "right")]


def test_both_towers_from_one_run_and_the_whole_from_a_run_of_towers(origins, tmp_path):
    one, _ = origins
    own = Mesh()
    twice = begun(towers(init_from=(From(str(one), here="left"), From(str(one), here="right")), mesh=own))
    jax.tree.map(np.testing.assert_array_equal, twice["left"], twice["right"])
    whole = towers(seed=4, mesh=own)
    tower = begun(tiny_experiments.vit(model=vit(), init_from=From(str(save(tmp_path, whole)), there="right")))
    jax.tree.map(np.testing.assert_array_equal, tower, weights(whole)["params"]["right"])


@pytest.mark.parametrize(
    ("parts", "words"),
    [
        ((dict(here="left"), dict(here="lef")), ["init_from[1].here", "did you mean left"]),
        ((dict(here="left"), dict(here="left", there="layers")), ["init_from[1]", "expected a run with parameters of"]),
        ((dict(here="left"), dict(here="left")), ["one origin of left/", "init_from[0]", "init_from[1]", "omit="]),
    ],
    ids=str,
)
def test_user_errors_name_the_origin(origins, parts, words, monkeypatch):
    exp = towers(init_from=tuple(From(str(origins[0]), **part) for part in parts), mesh=Mesh())
    with sharding.use_mesh(exp.mesh) as built, pytest.raises(UserError) as error:
        layout = build_layout(exp, built)
        monkeypatch.setattr(jax, "jit", None)
        find_init_source(exp, layout)
    for word in words:
        assert word in str(error.value)
