"""The config tree of a run: files, flags, ranges, JSON."""

import dataclasses
import json

import pytest

from txjax import config, tree
from txjax.models.text.decoder import Decoder
from txjax.nn import Tied
from txjax.types import UserError, config_field

from helpers.runs import train_here

FILE = """
import dataclasses
from tests_components import *
def get_config(variant=""):
    run = Run(model=Model(width=8), parts={"one": Part()}, groups=(Part(), Part(rate=0.5)))
    if variant == "wide":
        run.model.width = 64
    return run
"""
COMPONENTS = """
import dataclasses
import flax.linen as nn
from txjax.types import config_field
class Positions(nn.Module):
    theta: float = config_field(1e4, above=0)
class Model(nn.Module):
    width: int = config_field(4, at_least=1)
    kv_heads: int | None = None
    positions: nn.Module = dataclasses.field(default_factory=Positions)
@dataclasses.dataclass
class Part:
    name: str = "x"
    rate: float = config_field(0.1, at_least=0, below=1)
    mode: str = config_field("min", choices=("min", "max"))
    flag: bool = False
    data_dir: str | None = "here"
@dataclasses.dataclass
class Run:
    model: nn.Module
    parts: dict[str, Part]
    groups: tuple[Part, ...]
    num_steps: int = config_field(10, at_least=1)
"""


@pytest.fixture
def file(tmp_path, monkeypatch):
    (tmp_path / "tests_components.py").write_text(COMPONENTS)
    (tmp_path / "small.py").write_text(FILE)
    monkeypatch.syspath_prepend(str(tmp_path))
    return str(tmp_path / "small.py")


def test_flags_reach_every_depth_and_keep_their_types(file):
    flags = [
        "--config.model.width=512",
        "--config.model.positions.theta=5e3",
        "--config.model.kv_heads=2",
        "--config.parts.one.rate=0.25",
        "--config.parts.one.flag=true",
        "--config.parts.one.data_dir=None",
        "--config.groups[1].name=last",
    ]
    run = config.load(file + ":wide", flags)
    assert (run.model.width, run.model.positions.theta, run.model.kv_heads) == (512, 5000.0, 2)
    part = run.parts["one"]
    assert (part.rate, part.flag, part.data_dir, run.groups[1].name) == (0.25, True, None, "last")
    assert run.groups[0].name == "x"
    tree.check_fields(run)


def test_a_fresh_tree_every_time(file):
    config.load(file, ["--config.groups[0].rate=0.9"])
    assert config.load(file, []).groups[0].rate == 0.1
    assert config.load(file + ":wide", []).model.width == 64


@pytest.mark.parametrize(
    ("flag", "words"),
    [
        ("--config.modle.width=3", ["config.modle", "did you mean model?"]),
        ("--config.model.widht=3", ["config.model.widht", "field of Model", "did you mean width?"]),
        ("--config.model.positions.thета=1", ["config.model.positions", "Positions has theta"]),
        ("--config.parts.on.rate=1", ["config.parts.on", "did you mean one?"]),
        ("--config.parts.one.mod=max", ["config.parts.one.mod", "did you mean mode"]),
        ("--config.groups[7].rate=1", ["config.groups", "7"]),
        ("--config.model=3", ["config.model", "expected Module, got 3; or set config.model.width"]),
        ("--config.model.width=abc", ["config.model.width", "abc"]),
        ("--config.model.width=1.5", ["config.model.width", "1.5"]),
        ("--config.model.width=None", ["config.model.width", "a whole number"]),
        ("--config.num_steps", ["config.num_steps", "VALUE"]),
        ("--confg.num_steps=3", ["confg", "did you mean config?"]),
    ],
)
def test_a_mistyped_flag_is_one_line_that_names_it(file, flag, words):
    with pytest.raises(UserError) as error:
        config.load(file, [flag])
    for word in words:
        assert word in str(error.value)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("flag", "words"),
    [
        ("--config.num_steps=-5", ["config.num_steps", "at least 1", "-5"]),
        (f"--config.num_steps={2**63}", ["config.num_steps", "a number of 64 bits"]),
        ("--config.parts.one.rate=nan", ["config.parts.one.rate", "finite", "nan"]),
        ("--config.parts.one.rate=1.0", ["config.parts.one.rate", "less than 1"]),
        ("--config.parts.one.mode=maxx", ["config.parts.one.mode", "'min', 'max'", "did you mean max"]),
        ("--config.model.positions.theta=0", ["config.model.positions.theta", "more than 0"]),
        ("--config.groups[1].rate=inf", ["config.groups[1].rate", "finite"]),
    ],
)
def test_a_value_out_of_range_is_one_line_that_names_it(file, flag, words):
    run = config.load(file, [flag])
    with pytest.raises(UserError) as error:
        tree.check_fields(run)
    for word in words:
        assert word in str(error.value)


def test_a_wrong_type_in_the_file_itself_is_found(file):
    run = config.load(file, [])
    run.model.width = "512"
    with pytest.raises(UserError, match="config.model.width: expected a whole number, got '512'"):
        tree.check_fields(run)


@pytest.mark.parametrize(("given", "shown"), [("rotary", "'rotary'"), (Tied(), "'Tied'")])
def test_a_component_of_another_kind_is_found(given, shown):
    model = Decoder(vocab=3, width=2, depth=1, heads=1)
    model.positions = given
    with pytest.raises(UserError, match=f"^config.model.positions: expected Positions, got {shown}$"):
        tree.check_fields(model, "config.model")


def test_files_that_cannot_be_used(file, tmp_path):
    with pytest.raises(UserError, match="did you mean .*small.py"):
        config.load(str(tmp_path / "smal.py"), [])
    (tmp_path / "empty.py").write_text("x = 1\n")
    with pytest.raises(UserError, match="defines get_config"):
        config.load(str(tmp_path / "empty.py"), [])
    (tmp_path / "bad.py").write_text("def get_config(variant=''):\n    return 1 / 0\n")
    with pytest.raises(UserError, match=r"bad.py \(line 2\).*ZeroDivisionError"):
        config.load(str(tmp_path / "bad.py"), [])


def test_a_variant_that_the_file_does_not_list(file, tmp_path):
    assert config.load(f"{file}:wide", []).model.width == 64
    (tmp_path / "listed.py").write_text(FILE + 'VARIANTS = ("wide",)\n')
    assert config.load(f"{tmp_path}/listed.py:wide", []).model.width == 64
    with pytest.raises(UserError, match="--config: expected a variant of .*listed.py, got 'wode'; did you mean wide"):
        config.load(f"{tmp_path}/listed.py:wode", [])


def test_json_and_back(file):
    run = config.load(file, ["--config.model.kv_heads=2"])
    written = json.loads(json.dumps(tree.to_json(run)))
    assert written["model"]["class"] == "tests_components.Model"
    back = tree.from_json(written, trusted=("tests_components",))
    assert tree.to_json(back) == tree.to_json(run)
    assert type(back.model).__name__ == "Model" and back.groups[1].rate == 0.5


def test_a_file_never_chooses_what_is_imported(file):
    written = tree.to_json(config.load(file, []))
    with pytest.raises(UserError, match="--trust=tests_components"):
        tree.from_json(written)
    for path in ("os.system", "txjax.config.load", "txjax.nothing.Here", "subprocess.Popen"):
        with pytest.raises(UserError):
            tree.from_json({"class": path})


def test_differences_are_named_by_path(file):
    a, b = tree.to_json(config.load(file, [])), tree.to_json(config.load(file, ["--config.groups[1].rate=0.75"]))
    assert tree.diff(a, b) == [("groups[1].rate", 0.5, 0.75)]
    assert tree.diff({"x": {"y": 1}}, {"x": {"z": 1}}) == [("x.y", 1, ...), ("x.z", ..., 1)]


@dataclasses.dataclass
class Account:
    api_key: str = "s3cret"
    tokens: int = 3
    level: int = config_field(1, at_least=1)


def test_secrets_stay_out_of_the_json():
    assert "s3cret" not in json.dumps(tree.to_json(Account())) and tree.to_json(Account())["tokens"] == 3


@pytest.mark.parametrize(
    ("body", "got"),
    [
        ("pass", "got 'None'; {path} has no `return` for it"),
        ("return {'num_steps': 3}", "got 'dict, from {path}'"),
        ("return [1]", "got 'list, from {path}'"),
        ("return Decoder(vocab=256, width=8, depth=1, heads=1)", "got 'Decoder, from {path}'"),
        ("return Experiment", "got 'type, from {path}'"),
    ],
)
@pytest.mark.parametrize("flags", [(), ("--config.num_steps=5",), ("--dry_run=fields",)], ids=str)
def test_a_get_config_that_returns_no_experiment(tmp_path, body, got, flags):
    path = tmp_path / "own.py"
    path.write_text(
        "from txjax.experiment import Experiment\nfrom txjax.models.text.decoder import Decoder\n"
        f"def get_config():\n    {body}\n"
    )
    code, _, err = train_here(path, tmp_path / "run", *flags)
    expected = f"txjax: --config: expected get_config() to return an Experiment, {got.format(path=path)}\n"
    assert (code, err) == (2, expected) and not (tmp_path / "run").exists()
