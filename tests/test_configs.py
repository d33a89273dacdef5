"""Every config in `configs`: it loads, is valid, round-trips by JSON, and its train step traces on any machine."""

import dataclasses
import importlib.util
import inspect
import json
import re
from pathlib import Path

import jax
import pytest

from txjax import config, sharding, tree
from txjax.data.keys import check_spec
from txjax.eval import Entities, Evaluation
from txjax.eval.evaluation import sums_of
from txjax.experiment import Experiment, with_default_eval_data
from txjax.models.model import models_inside
from txjax.models.vision.res_net import BiT
from txjax.parametrization import MuP
from txjax.sweep.resolve import resolve
from txjax.train.check import check
from txjax.train.state.state import batch_spec, build_layout, model_variables
from txjax.train.step import make_step
from txjax.types import UserError

from selection import describe_config, per_family

ROOT = Path(__file__).parents[1]
CONFIGS = sorted((ROOT / "configs").rglob("*.py"))
STUDIES = sorted((ROOT / "experiments").glob("*/config*.py"))


def name(path: Path) -> str:
    return str(path.relative_to(ROOT))


def variants(path: Path) -> list[str]:
    """A config and its other variants, by its `VARIANTS`."""
    spec = importlib.util.spec_from_file_location(path.stem, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    default = [parameter.default for parameter in inspect.signature(module.get_config).parameters.values()]
    others = [variant for variant in getattr(module, "VARIANTS", ()) if variant not in default]
    return [name(path), *(f"{name(path)}:{variant}" for variant in others)]


ALL = [source for path in CONFIGS + STUDIES for source in variants(path)]


def family(source: str) -> str:
    """A config without the size in variants that are called FAMILY-SIZE."""
    file, colon, variant = source.partition(":")
    return file + colon + (variant.rpartition("-")[0] or variant)


# The first variant of a file is tested by the fast tests, the others by the slow ones.
FIRST = [name(path) for path in CONFIGS + STUDIES]
EACH = [source if source in FIRST else pytest.param(source, marks=pytest.mark.slow) for source in ALL]
BY_FAMILY = list({family(source): source for source in reversed(ALL)}.values())[::-1]
OTHERS = {name(path): [each for each in variants(path)[1:] if each in BY_FAMILY] for path in CONFIGS + STUDIES}


def structure(experiment: Experiment) -> str:
    """An experiment with 1 for every number but 0, which may turn an operation off: one structure, one kind of step."""
    text = json.dumps(tree.to_json(experiment))
    return json.dumps(json.loads(text, parse_int=lambda n: int(n != "0"), parse_float=lambda n: int(float(n) != 0)))


def load_without_data(source: str) -> Experiment:
    """A config, with two classes where the number is the data set's: the data may not be on this machine."""
    experiment = config.load(source, [])
    if getattr(experiment.data, "classes", 2) is None:
        experiment.data.classes = 2
    return with_default_eval_data(experiment)


@pytest.fixture
def experiment(request, monkeypatch):
    monkeypatch.chdir(ROOT)
    return load_without_data(request.param)


@per_family("experiment", describe_config, seconds=1.5, budget=15)
@pytest.mark.parametrize("experiment", FIRST, indirect=True)
def test_the_whole_step_traces(experiment, monkeypatch):
    trace(experiment, monkeypatch)


@pytest.mark.slow
@per_family("source", describe_config, seconds=3, cover=False)
@pytest.mark.parametrize("source", [source for source, others in OTHERS.items() if others])
def test_the_steps_of_other_variants_trace(source, monkeypatch):
    """Of those that differ in numbers alone one is: tests/models/test_counts.py builds every published size."""
    monkeypatch.chdir(ROOT)
    first, *others = map(load_without_data, (source, *OTHERS[source]))
    left = {structure(experiment): experiment for experiment in reversed(others)}
    left.pop(structure(first), None)
    for experiment in left.values():
        trace(experiment, monkeypatch)


def trace(experiment, monkeypatch):
    """The state has the same shapes after an update; evaluations can be traced, too."""
    monkeypatch.setattr(type(experiment.data), "check", lambda self: None)  # the data may not be on this machine
    for evaluation in experiment.evals.values():
        monkeypatch.setattr(type(evaluation.data), "check", lambda self: None)
        monkeypatch.setattr(
            type(evaluation.data), "class_names", lambda self: ("O",) * (getattr(self, "classes", None) or 1)
        )
        if isinstance(evaluation, Entities):
            pytest.importorskip("seqeval", reason="pip install '.[text]'")
    monkeypatch.setattr(jax, "device_count", lambda: 1)
    layout = check(experiment)
    check_spec("", experiment.data.spec(), {})
    spec = batch_spec(experiment.data, experiment.batch_size)
    with sharding.use_mesh(experiment.mesh):
        state, metrics = jax.eval_shape(make_step(experiment, layout), layout.abstract, spec)
        shapes = jax.tree.map(lambda x: (x.shape, x.dtype), layout.abstract)
        assert jax.tree.map(lambda x: (x.shape, x.dtype), state) == shapes
        assert {"loss", "grad_norm", "lr", "skipped"} <= set(metrics)
        assert all(m.shape in ((), (2,)) for m in jax.tree.leaves(metrics))
        for evaluation in experiment.evals.values():
            model, objective, _ = evaluation.part(experiment.model, experiment.objective, experiment.data)
            if isinstance(evaluation, Evaluation):  # the others compute no loss
                sums = sums_of(model, objective, experiment.seed)
                jax.eval_shape(sums, model_variables(layout.abstract), batch_spec(evaluation.data, 8))


@pytest.mark.parametrize("experiment", EACH, indirect=True)
def test_json_round_trip_and_flags_that_can_type_every_field(experiment):
    """ml_collections reads the annotations themselves: `from __future__ import annotations` makes them texts."""
    written = json.dumps(tree.to_json(experiment))
    assert json.dumps(tree.to_json(tree.from_json(json.loads(written)))) == written
    for where, node in tree.walk(experiment):
        if dataclasses.is_dataclass(node):
            assert not [f"{where}.{f.name}" for f in tree.config_fields(node) if isinstance(f.type, str)]


@pytest.mark.parametrize("source", [source for path in STUDIES for source in variants(path)])
def test_every_point_of_a_study_is_a_run(source, monkeypatch):
    monkeypatch.chdir(ROOT)
    points, same = resolve(source, [])
    assert len(points) > 1 or source.endswith(":large")
    assert same == 0
    for point in points:
        tree.check_fields(point.experiment)


@pytest.mark.parametrize("path", CONFIGS, ids=name)
def test_the_docstring_gives_command_cost_and_score(path):
    text = path.read_text().split('"""')[1]
    commands = [f"txjax train --config={form}" for form in (name(path), f"txjax:{path.parent.name}/{path.stem}")]
    assert any(command in text for command in commands)
    assert re.search(r"Cost: .*\d", text) and re.search(r"Score: .*\d", text), "state what it costs and what it reaches"


def parametrized(model):
    """The model under muP, at four times the base's width; of one without a width, the models inside it."""
    stages = getattr(model, "stages", None)
    first = stages[0] if isinstance(stages, tuple) else getattr(model, "discriminator", model)
    if not hasattr(first, "width"):
        return model.clone(**{name: parametrized(inner) for name, inner in models_inside(model)})
    heads = getattr(first, "heads", 1)
    base = MuP(base_width=max(first.width // 4, 1), base_head_size=max(first.width // heads // 2, 1))
    return model.clone(parametrization=base)


@pytest.mark.slow
@per_family("experiment", describe_config, seconds=0.3, cover=False)
@pytest.mark.parametrize("experiment", BY_FAMILY, indirect=True)
def test_every_model_takes_a_parametrization(experiment, monkeypatch):
    """At four times the base's width the layout is built, or an error names the optimizer or the kernels."""
    model = experiment.model
    experiment.model = parametrized(model)
    monkeypatch.setattr(jax, "device_count", lambda: 1)
    with sharding.use_mesh(experiment.mesh, jax.devices()[:1]) as built:
        if isinstance(model, BiT):
            with pytest.raises(UserError, match=r"expected Standard\(\) for standardised kernels"):
                build_layout(experiment, built)
        elif experiment.optimizer.rule is None:
            with pytest.raises(UserError, match="config.optimizer"):
                build_layout(experiment, built)
        else:
            build_layout(experiment, built)


def test_the_readme_shows_the_config_as_it_ships():
    text = (ROOT / "configs/text/shakespeare.py").read_text()
    printed = re.findall(r"```python\n(def get_config.*?)```", (ROOT / "README.md").read_text(), re.DOTALL)
    assert printed == [text[text.index("def get_config") :]]
