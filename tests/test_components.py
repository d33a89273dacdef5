"""Components, dicts and tuples by flag: literal calls that are parsed, never evaluated."""

import json
from pathlib import Path

import pytest

from txjax import config, tree
from txjax.__main__ import main
from txjax.models.text.bert.bert import Bert
from txjax.nn.positions.positions import Alibi, Rotary
from txjax.optim import LARS, Group
from txjax.optim.schedules import Linear
from txjax.overrides import set_field
from txjax.sweep.resolve import resolve
from txjax.transfer import Every, First, From
from txjax.types import UserError

from helpers import runs


def test_a_component_takes_the_place_of_another_and_later_flags_set_its_fields(config):
    run = load(config, "--config.model.positions=Alibi()")
    assert type(run.model.positions) is Alibi
    run = load(config, "--config.model.positions=Rotary()", "--config.model.positions.theta=500")
    assert type(run.model.positions) is Rotary and run.model.positions.theta == 500.0
    run = load(config, "--config.optimizer=LARS(0.5, schedule=Linear(warmup_steps=3))")  # nn has a Linear, too
    assert type(run.optimizer) is LARS and run.optimizer.schedule == Linear(warmup_steps=3)
    assert type(load(config, "--config.model=Bert(vocab=300, width=32, depth=2, heads=2)").model) is Bert
    run = load(config, r"--config.optimizer.groups=(Group(pattern='a\d', lr=0.5), Group())")
    assert run.optimizer.groups == (Group(pattern=r"a\d", lr=0.5), Group())


def test_dicts_and_optional_components(config):
    run = load(config, '--config.mesh.rules={"vocab": (), "mlp": ("fsdp",)}', "--config.evals={}")
    assert run.mesh.rules == {"vocab": (), "mlp": ("fsdp",)} and run.evals == {}
    assert load(config, "--config.ema=EMA(decay=0.5)", "--config.ema=None").ema is None
    assert load(config, "--config.ema=EMA()", "--config.ema.decay=0.5").ema.decay == 0.5
    run = load(config, "--config.evals.valid=Perplexity(NextTokenWindows(split='validation', length=8))")
    assert type(run.evals["valid"]).__name__ == "Perplexity"
    assert load(config, "--config.trackers=()").trackers == ()


def test_a_text_where_a_component_may_be_too(config):
    """It is the run of a `From` that the config has; a component replaces it, and its fields can be set after it."""
    assert load(config, "--config.init_from=runs/mae 1@best").init_from == "runs/mae 1@best"
    assert load(config, "--config.init_from=runs/a", "--config.init_from=/runs/b").init_from == "/runs/b"
    how = "--config.init_from=From(omit=('head',), resize=(Every(2),))"
    run = load(config, how, "--config.init_from=runs/a@15")
    assert run.init_from == From("runs/a@15", omit=("head",), resize=(Every(2),))
    assert load(config, how, "--config.init_from.run=runs/a", "--config.init_from.resize=First(3)").init_from == From(
        "runs/a", omit=("head",), resize=(First(3),)
    )
    several = "--config.init_from=(From(here='image'), From(here='text'))"
    run = load(config, several, "--config.init_from.0.run=runs/a", "--config.init_from[1].run=runs/b@best")
    assert run.init_from == (From("runs/a", here="image"), From("runs/b@best", here="text"))
    with pytest.raises(UserError, match=r"got 'runs/a'.*or set config.init_from\[0\]"):
        load(config, several, "--config.init_from=runs/a")
    assert load(config, how, "--config.init_from=None").init_from is None
    set_field(run := load(config, how), "init_from", "runs/a")  # as a sweep's point does
    assert run.init_from == From("runs/a", omit=("head",), resize=(Every(2),))


def test_a_class_of_the_config_file_itself(config, tmp_path):
    own = "\nfrom txjax.nn import Alibi\nclass Mine(Alibi):\n    slope: float = 1.0\n"
    (tmp_path / "own.py").write_text(Path(config).read_text() + own)
    assert load(tmp_path / "own.py", "--config.model.positions=Mine(slope=2)").model.positions.slope == 2.0


def test_config_json_and_sweeps_hold_such_a_component(config, tmp_path):
    flags = [
        "--config.model.positions=Rotary(theta=500)",
        '--config.mesh.rules={"vocab": ()}',
        "--config.init_from=From(omit=('head',))",
    ]
    written = json.loads(json.dumps(tree.to_json(load(config, *flags))))
    assert tree.to_json(tree.from_json(written)) == written
    points = "\ndef sweep():\n    return [{'model.positions.theta': 700}, {'seed': 1}]\n"
    (tmp_path / "swept.py").write_text(runs.CONFIG + points)
    found, _ = resolve(str(tmp_path / "swept.py"), flags)
    assert [run.experiment.model.positions.theta for run in found] == [700.0, 500.0]


@pytest.mark.parametrize(
    ("flag", "words"),
    [
        (
            "model.positions=Rotery()",
            ["config.model.positions", "did you mean Rotary?", "there are Alibi, Learned"],
        ),
        ("model.positions=AdamW()", ["a class of txjax for Positions", "got 'AdamW'", "there are Alibi"]),
        ("model.positions=Rotary(thet=5)", ["config.model.positions.thet", "field of Rotary", "did you mean theta?"]),
        ("model.positions=Rotary(theta='x')", ["config.model.positions.theta: expected a number, got 'x'"]),
        ("model.positions=Rotary(1, theta=2)", ["config.model.positions.theta: expected one value"]),
        ("model.positions=Alibi", ["such as Alibi(...)", "got 'Alibi'"]),
        ("model.positions=None", ["config.model.positions: expected Positions, got None"]),
        ("model=Decoder(width=3)", ["expected Decoder(width=..., depth=..., heads=..., vocab=...)"]),
        ("model.positions=Rotary(theta=10**9**9)", ["config.model.positions.theta: expected a number"]),
        ("model.positions=Rotary(**{})", ["a field of Rotary"]),
        ("model.positions=(((", ["config.model.positions", "'((('"]),
        ("mesh.rules={'head': 3}", ["config.mesh.rules.head: expected a tuple of texts", "got 3"]),
        ("mesh.rules={3: ()}", ["keys that are texts"]),
        ("init_from=Frm('runs/a')", ["config.init_from: expected a class of txjax", "did you mean From?"]),
        ("init_from=From('a', resize=(Evry(2),))", ["config.init_from.resize[0]", "did you mean Every?"]),
        ("init_from=5", ["config.init_from: expected a text or From", "got 5"]),
        ("trackers=(1,)", ["config.trackers[0]: expected Tracker, got 1", "TensorBoard"]),
        ("num_steps=None", ["config.num_steps"]),
    ],
)
def test_a_user_error_is_one_line(config, flag, words):
    with pytest.raises(UserError) as caught:
        load(config, f"--config.{flag}")
    assert all(word in str(caught.value) for word in words), caught.value
    assert "\n" not in str(caught.value)


def test_nothing_is_evaluated(config, tmp_path, capsys):
    mark = tmp_path / "mark"
    for text in (
        f"open({str(mark)!r}, 'w')",
        f"__import__('pathlib').Path({str(mark)!r}).touch()",
        f"Rotary(theta=open({str(mark)!r}, 'w'))",
        f"[Rotary() for _ in [open({str(mark)!r}, 'w')]]",
        "os.system('true')",
        "subprocess.Popen(['true'])",
    ):
        flag = f"--config.model.positions={text}"
        assert main(["train", f"--config={config}", f"--workdir={tmp_path / 'run'}", flag]) == 2
        err = capsys.readouterr().err
        assert err.startswith("txjax: config.model.positions") and len(err.splitlines()) == 1, err
    assert not mark.exists() and not (tmp_path / "run").exists()


def load(path, *flags: str):
    found = config.load(str(path), list(flags))
    tree.check_fields(found)
    return found
