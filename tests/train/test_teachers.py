"""A teacher comes from another run, whole and frozen; what doesn't suit is one line before anything compiles."""

import json
import logging
from typing import Any

import pytest

from txjax import sharding, tree
from txjax.checkpoint import Store
from txjax.data import Bytes, TextWindows
from txjax.experiment import Experiment
from txjax.models.text.bert import Bert
from txjax.nn import Learned
from txjax.objectives import Distillation, MaskedToken
from txjax.optim import AdamW, train_all_but
from txjax.train.check import check
from txjax.train.state.init_from import find_init_source
from txjax.train.state.state import build_layout
from txjax.transfer import Every, From
from txjax.types import UserError

from helpers.arrays import fill

pytestmark = pytest.mark.claim(
    "Models and objectives",
    "a teacher comes from another run, whole and frozen, of the same tokenizer; else one line",
)

MASKED = MaskedToken(mask_id=256, vocab=256)


def bert(**fields: Any) -> Any:
    sizes = {"vocab": 258, "width": 8, "depth": 4, "heads": 2, "positions": Learned(max_length=16)}
    return Bert(**sizes | fields)


def experiment(specials=("[MASK]", "[CLS]"), **fields: Any) -> Experiment:
    data = TextWindows(name="txjax_python_text", split="train", length=16, tokenizer=Bytes(specials=specials))
    return Experiment(**{"model": bert(), "objective": MASKED, "data": data, "batch_size": 8} | fields)


def student(*origins: From, **fields: Any) -> Experiment:
    goal = Distillation(teacher=fields.pop("teacher", bert()), objective=MASKED)
    fields = {"optimizer": AdamW(groups=train_all_but("teacher/.*"))} | fields
    return experiment(model=bert(depth=2, types=None), objective=goal, init_from=origins, **fields)


@pytest.fixture(scope="module")
def run(tmp_path_factory) -> str:
    """The workdir of the teacher's run."""
    workdir, saved = tmp_path_factory.mktemp("saved") / "run", experiment()
    with sharding.use_mesh(saved.mesh) as built:
        layout = build_layout(saved, built)
        store = Store(workdir, saved.checkpoint)
        store.save(3, fill(layout.abstract, 3), {"metrics": {}})
        store.wait()
    (workdir / "config.json").write_text(json.dumps(tree.to_json(saved)))
    return str(workdir)


def rows(one: Experiment) -> dict[str, str]:
    """What becomes of every parameter here."""
    check(one)
    with sharding.use_mesh(one.mesh) as built:
        source = find_init_source(one, build_layout(one, built))
    return {} if source is None else {row.path: row.action for row in source.rows if row.here}


def test_a_run_is_the_teacher_and_every_second_layer_of_it_the_student(run):
    found = rows(student(From(run, here="teacher"), From(run, resize=(Every(2),))))
    theirs = {path for path in found if path.startswith("teacher/")}
    assert len(theirs) == len(rows(experiment(init_from=run))) and {found[path] for path in theirs} == {"loaded"}
    assert found["embed/embedding"] == "loaded" and found["layers/block/mlp/up/kernel"] == "resized"
    assert "embed_types/embedding" not in found


def test_without_a_run_it_is_random_and_the_log_says_so(caplog):
    with caplog.at_level(logging.WARNING, "txjax"):
        assert rows(student()) == {}
    assert "teacher/ is random" in caplog.text


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (
            lambda run: student(From(run, resize=(Every(2),))),
            ["config.init_from", "gives all of teacher/", "From(run=WORKDIR, here='teacher')"],
        ),
        (
            lambda run: student(From(run, here="teacher"), optimizer=AdamW()),
            ["config.optimizer.groups", "freeze teacher/", 'groups=train_all_but("teacher/.*")'],
        ),
        (
            lambda run: student(From(run, here="teacher"), teacher=bert(vocab=259)),
            ["config.objective.teacher.vocab", "258, as config.model.vocab", "got 259"],
        ),
        (
            lambda run: student(From(run, here="teacher"), specials=("[CLS]", "[MASK]")),
            ["config.data.tokenizer", "run at step 3, which teacher/embed/embedding is taken from", "specials"],
        ),
        (
            lambda run: student(From(run, here="teacher"), teacher=bert(depth=3)),
            ["config.init_from", "teacher/layers/block", "resize"],
        ),
        (
            lambda run: student(teacher=bert(positions=Learned(max_length=9))),
            ["config.objective.teacher.positions.max_length", "at least the input's length of 16", "got 9"],
        ),
    ],
    ids=["no teacher", "trained", "another vocabulary", "another tokenizer", "another depth", "shorter texts"],
)
def test_what_doesnt_suit_is_one_line(run, change, words):
    with pytest.raises(UserError) as error:
        rows(change(run))
    assert "\n" not in str(error.value)
    for word in words:
        assert word in str(error.value), error.value
