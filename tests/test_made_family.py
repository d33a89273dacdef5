"""A family that is one model file and one config outside the package (tests/made_family): every command and contract.

Two towers, one of them convolutional with model state, cross-attention between them, a recurrent part, a head of `nn`.
"""

import json
import re
import subprocess
import sys
from pathlib import Path

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax.core import meta

from txjax import config, modules, sharding
from txjax.axes import axes_of
from txjax.checkpoint import Store
from txjax.eval.features.frozen_features import features_of
from txjax.experiment import Experiment
from txjax.models.vision.conv_net import ConvNet
from txjax.models.vision.vit import ViT
from txjax.nn import Attention, Classes, MeanTokens
from txjax.parametrization import MuP, Role, Standard, role_of
from txjax.report.inspection.attention_maps import attention_maps
from txjax.train.population.population import train_together
from txjax.train.run_eval import shard_batch
from txjax.train.state.counting import flops_per_step
from txjax.train.state.init_from import find_init_source
from txjax.train.state.state import Layout, abstract_variables, build_layout
from txjax.train.step import jit_step
from txjax.types import Batch, UserError, flat_paths

from helpers import runs
from helpers.arrays import fill, filled, on_jax

pytestmark = pytest.mark.claim(
    "Models and objectives",
    "a family outside the package: trained, resumed, sharded, planned, counted, adapted, inspected; the page about "
    "families",
)

FILE = Path(__file__).parent / "made_family" / "matcher_digits.py"
MATCHER = FILE.with_name("matcher.py")
SHORT = ("--config.num_steps=4", "--config.checkpoint.every_steps=4", "--config.evals={}")


@pytest.fixture(scope="module", autouse=True)
def forgotten():
    """Restores `sys.modules` and `sys.path`."""
    path, names = list(sys.path), set(sys.modules)
    yield
    sys.path[:] = path
    for name in {"matcher", "matcher_digits"} - names:
        sys.modules.pop(name, None)
        modules._ours.pop(name, None)
    modules._folders.discard(FILE.parent)


def made(*flags: str, variant: str = "") -> Experiment:
    return config.load(f"{FILE}:{variant}" if variant else str(FILE), list(flags))


def batch(exp: Experiment, step: int = 0) -> Batch:
    """Examples of the training set, one after the other."""
    source, rng = exp.data.open(), np.random.default_rng(step)
    ids = range(step * exp.batch_size, (step + 1) * exp.batch_size)
    rows = [source.example(i, 0, rng) | {"id": np.array(i, np.int32)} for i in ids]
    return {key: np.stack([row[key] for row in rows]) for key in rows[0]}


@pytest.fixture(scope="module")
def trained(tmp_path_factory) -> Path:
    """The workdir of four steps by `txjax train`."""
    workdir = tmp_path_factory.mktemp("made") / "run"
    code, _, err = runs.train_here(FILE, workdir, *SHORT)
    assert code == 0, err
    return workdir


def weights(workdir: Path) -> dict[str, np.ndarray]:
    """The arrays of the newest step by path."""
    exp = made(*SHORT, variant="adapted" if workdir.name == "adapted" else "")
    with sharding.use_mesh(exp.mesh, jax.devices()[:1]) as built:
        state = Store(workdir).restore(build_layout(exp, built).abstract)[0]
    return flat_paths(jax.device_get({"params": state.params, "frozen": state.frozen, "state": state.model_state}))


@pytest.mark.slow
def test_it_trains_and_is_counted(trained):
    rows, manifest = runs.rows(trained), json.loads((trained / "manifest.json").read_text())
    assert [row["step"] for row in rows] == [1, 2, 3, 4] and all(np.isfinite(row["train/loss"]) for row in rows)
    assert manifest["parameters"] > 10_000
    assert manifest["flops_per_step"] == flops_per_step(made())
    assert flops_per_step(made("--config.batch_size=32")) == 2 * flops_per_step(made())


def test_every_parameter_has_named_axes_and_its_tower_s_scaling():
    flags = [f"--config.model.{part}parametrization=MuP(8,4)" for part in ("", "image.", "text.")]
    exp = made(*flags, "--config.model.text.width=24")
    exp.model = exp.model.clone(image=exp.model.image.clone(width=16))
    assert isinstance(exp.model.parametrization, MuP)
    assert {path: scaling.width for path, scaling in exp.model.scalings().items()} == {"": 2, "image": 2, "text": 3}
    boxed = abstract_variables(exp)["params"]
    boxes = flat_paths(boxed, is_leaf=lambda x: isinstance(x, meta.AxisMetadata))
    assert all(all(axes_of(box)) for box in boxes.values())
    hidden = "layers/block/mixer/cell/recurrent/kernel", "layers/block/cross/key/kernel", "image/conv/kernel"
    assert all(role_of(axes_of(boxes[path])) is Role.HIDDEN for path in hidden)
    assert role_of(axes_of(boxes["image/stem/kernel"])) is Role.INPUT


def test_its_attentions_and_features_are_seen():
    exp = made()
    given = on_jax(batch(exp))
    inputs, variables = exp.objective.inputs(exp.model, given), filled(meta.unbox(abstract_variables(exp)))
    see = jax.jit(lambda v, x: (attention_maps(exp.model, v, x), features_of(exp.model, v, x)))
    maps, features = see(variables, inputs)
    shapes = {path: x.shape for path, x in maps.items()}
    assert shapes == {"text/layers/block/attention": (1, 16, 2, 8, 8), "layers/block/cross": (2, 16, 2, 8, 16)}
    for found in maps.values():
        np.testing.assert_allclose(found.sum(-1), 1, rtol=1e-5)
    padding = (given["segments"] == 0)[None, :, None, None] & (given["segments"] > 0)[None, :, None, :, None]
    assert not np.any(np.where(padding, maps["text/layers/block/attention"], 0))
    assert features.shape == (16, 16) and np.ptp(features, axis=0).min() > 0  # of the head, not of a tower


def test_the_page_of_families():
    """Its model is traced with the config that it names; the maps are of all attentions."""
    page = (FILE.parents[2] / "docs" / "adding_a_family.md").read_text()
    names = {"ViT": ViT}
    exec(re.search(r"^```python\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)[1], names)
    model = eval(re.search(r"`(Captioner\(.*\))` is its config", page)[1], names)
    inputs = {"image": jnp.zeros((2, 8, 8, 1)), "tokens": jnp.zeros((2, 5), jnp.int32)}
    drawn = jax.eval_shape(lambda: meta.unbox(model.init(jax.random.key(0), **inputs)))
    maps = jax.eval_shape(lambda v: attention_maps(model, v, inputs), drawn)
    shapes = {path: x.shape for path, x in maps.items()}
    assert shapes.pop("image/layers/block/attention") == (2, 2, 4, 17, 17)
    assert shapes == {"layers/block/attention": (2, 2, 4, 5, 5), "layers/block/cross": (2, 2, 4, 5, 17)}


def test_a_model_without_attention_is_an_error():
    model = ConvNet(width=4, depth=1, stages=1, head=Classes(2, MeanTokens()))
    image = jnp.zeros((2, 4, 4, 1))
    with pytest.raises(UserError, match="config.model: expected a model whose attention .*, got 'ConvNet'"):
        jax.eval_shape(lambda x: attention_maps(model, model.init(jax.random.key(0), x), {"image": x}), image)


def test_layers_of_a_recurrence_and_of_attention():
    """In one block, since mixers of other parameters can't take turns."""
    exp = made()
    exp.model = exp.model.clone(block=sys.modules["matcher"].WithAttention())
    shapes = flat_paths(meta.unbox(abstract_variables(exp)["params"]))
    assert shapes["layers/block/before/query/kernel"].shape == (2, 16, 2, 8)
    assert shapes["layers/block/mixer/cell/recurrent/kernel"].shape == (2, 16, 3, 16)
    assert flops_per_step(exp) > flops_per_step(made())
    exp.model = made().model.clone(mixer=(exp.model.mixer, Attention()))
    with pytest.raises(UserError, match="config.model.mixer: .* equal names and shapes, .* got 'GRU, Attention'"):
        flops_per_step(exp)


def test_parameters_without_names_of_axes_have_no_scaling():
    class Bare(ConvNet, kw_only=True):
        @nn.compact
        def __call__(self, image, tokens, segments=None, train=False):
            return nn.Dense(2)(image.reshape(len(image), -1))

        @nn.nowrap
        def scaling(self):
            return self.parametrization.scaling(self.width, 1, 1)

    exp = made()
    exp.model = Bare(width=8, depth=1, parametrization=MuP(8, 1))
    with sharding.use_mesh(exp.mesh, jax.devices()[:1]) as built:
        with pytest.raises(UserError, match="config.model.parametrization: expected names of the axes of Dense_0/"):
            build_layout(exp, built)
        exp.model = exp.model.clone(parametrization=Standard())
        build_layout(exp, built)


@pytest.mark.slow
def test_a_tower_starts_from_a_run(trained, monkeypatch):
    monkeypatch.setattr(Layout, "create", lambda self, seed: fill(self.abstract, seed))
    exp = made(f"--config.init_from=From('{trained}', here='text', there='text')")
    with sharding.use_mesh(exp.mesh, jax.devices()[:1]) as built:
        layout = build_layout(exp, built)
        params = flat_paths(jax.device_get(find_init_source(exp, layout).begin(exp, layout).params))
        fresh = flat_paths(jax.device_get(layout.create(exp.seed).params))
    origin = weights(trained)
    for path, x in params.items():
        np.testing.assert_array_equal(x, origin[f"params/{path}"] if path.startswith("text/") else fresh[path])


@pytest.mark.slow
def test_it_adapts_and_is_evaluated(trained, tmp_path):
    """Low-rank updates of both stacks and of the recurrence; the rest stays as it was."""
    adapted = tmp_path / "adapted"
    code, _, err = runs.train_here(f"{FILE}:adapted", adapted, *SHORT[:2], f"--config.init_from.run={trained}")
    assert code == 0, err
    origin, found = weights(trained), weights(adapted)
    new = {path for path in found if path.startswith("params/")}
    assert {path.split("/lora/")[0] for path in new if "/lora/" in path} == {
        f"params/{path}"
        for path in (
            *(f"layers/block/{part}" for part in ("mixer/given", "mixer/cell/recurrent")),
            *(f"layers/block/cross/{part}" for part in ("query", "value")),
            *(f"text/layers/block/attention/{part}" for part in ("query", "value")),
        )
    }
    assert all(np.any(found[path]) for path in new)  # trained: what goes up begins at zero
    for path, x in found.items():
        if path.startswith("frozen/"):
            np.testing.assert_array_equal(x, origin[path.replace("frozen", "params")])
    code, out, err = runs.command("evaluate", f"--workdir={adapted}", f"--trust={FILE}")
    assert code == 0 and "accuracy" in out, err


@pytest.mark.slow
def test_it_plans():
    words = [sys.executable, "-m", "txjax", "plan", f"--config={FILE}", "--devices=8", "--chip=H100", "--json"]
    done = subprocess.run(words, capture_output=True, text=True, env=runs.environment(8), timeout=300)
    assert done.returncode == 0, done.stderr
    plan = json.loads(done.stdout)
    assert plan["fits"] and plan["flops_per_step"] == flops_per_step(made()) == 3 * sum(plan["flops_parts"].values())
    assert plan["params"] == sum(part["trainable"] for part in plan["params_parts"].values())


@pytest.mark.slow
def test_it_resumes_exactly(capsys):
    code, out, err = runs.command("verify", f"--config={FILE}", "--steps=4", "--kills=1", "--json", "--config.evals={}")
    assert code == 0, out + err
    assert json.loads(out.strip().splitlines()[-1])["exact"]


@pytest.mark.slow
def test_a_population_is_its_runs(trained, tmp_path):
    points = [made(*SHORT), made(*SHORT, "--config.optimizer.peak_lr=0.003")]
    code, failed = train_together(points, [tmp_path / "0", tmp_path / "1"])
    assert code == 0 and not failed
    rows, alone = runs.rows(tmp_path / "0"), runs.rows(trained)
    np.testing.assert_allclose([r["train/loss"] for r in rows], [r["train/loss"] for r in alone], rtol=2e-4)
    assert runs.rows(tmp_path / "1")[-1]["train/loss"] != rows[-1]["train/loss"]
    origin, found = weights(trained), weights(tmp_path / "0")
    for path, x in found.items():
        if path.startswith("state/"):
            np.testing.assert_allclose(x, origin[path], rtol=2e-4, atol=1e-6)


@pytest.mark.slow
@pytest.mark.mesh
def test_eight_devices_are_one():
    meshes = {1: (), 8: ("--config.mesh.data=2", "--config.mesh.fsdp=2", "--config.mesh.tensor=2")}
    first, losses = None, {}
    for devices, flags in meshes.items():
        exp = made(*flags)
        with sharding.use_mesh(exp.mesh, jax.devices()[:devices]) as built:
            layout = build_layout(exp, built)
            first = first or jax.device_get(layout.create(exp.seed))  # of both, so that it is drawn once
            state = jax.tree.map(lambda x, like: jax.device_put(x, like.sharding), first, layout.abstract)
            step, losses[devices] = jit_step(exp, layout), []
            for number in range(3):
                state, metrics = step(state, shard_batch(batch(exp, number), layout.batch))
                losses[devices].append(float(metrics["loss"]))
    np.testing.assert_allclose(losses[8], losses[1], rtol=1e-5)
