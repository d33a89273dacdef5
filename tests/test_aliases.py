"""The names that others have for fields lead to ours."""

import dataclasses
from pathlib import Path

import pytest

from txjax import config, tree
from txjax.__main__ import main
from txjax.aliases import ALIASES
from txjax.errors import near_misses

ROOT = Path(__file__).parents[1]
CONFIGS = ("text/gpt_tiny.py", "vision/vit_digits.py", "vision/vit_imagenet.py", "text/t5_tiny.py", "text/bert_base.py")


@pytest.fixture(scope="module")
def fields() -> set[str]:
    """The names of all fields of some configs."""
    nodes = [node for name in CONFIGS for _, node in tree.walk(config.load(str(ROOT / "configs" / name), []))]
    return {field.name for node in nodes if tree.is_component(node) for field in dataclasses.fields(node)}


def test_every_alias_names_a_field(fields):
    assert not {name: ours for name, ours in ALIASES.items() if not fields & set(ours)}


@pytest.mark.parametrize(
    ("flag", "near"),
    [
        ("--config.model.n_layer=2", "depth"),
        ("--config.model.d_model=2", "width"),
        ("--config.model.hidden_size=2", "width"),
        ("--config.model.n_embd=2", "width"),
        ("--config.model.n_head=2", "heads"),
        ("--config.model.vocab_size=2", "vocab"),
        ("--config.model.dropout_rate=0.1", "dropout"),
        ("--config.model.attention.dropout=0.1", "mixer"),
        ("--config.optimizer.learning_rate=0.1", "peak_lr"),
        ("--config.lr=0.1", "config.optimizer.peak_lr"),
        ("--config.data.seq_len=2", "length"),
        ("--config.max_steps=2", "num_steps"),
        ("--config.num-steps=2", "num_steps"),
        ("--config.epochs=2", "num_epochs"),
        ("--config.gradient_accumulation_steps=2", "microbatches"),
        ("--config.warmup=2", "config.optimizer.schedule.warmup_steps"),
        ("--max_steps=2", "--config.num_steps"),
        ("--grad_clip=2", "--config.optimizer.clip"),
        ("--dry-run", "--dry_run"),
    ],
)
def test_a_flag_under_another_name(config, tmp_path, capsys, flag, near):
    assert main(["train", f"--config={config}", f"--workdir={tmp_path / 'run'}", flag]) == 2
    err = capsys.readouterr().err
    assert f"; did you mean {near}?" in err and len(err.splitlines()) == 1, err


def test_a_name_is_an_alias_only_where_our_field_is():
    assert near_misses("steps", ["num_steps", "every_steps"]) == ["num_steps"]
    assert near_misses("steps", ["every_steps"]) == ["every_steps"]


def test_a_config_file_by_its_name_alone_and_without_its_flag(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(ROOT)
    words = [f"--workdir={tmp_path / 'run'}"]
    assert main(["train", "--config=gpt_tiny", *words]) == 2
    expected = "--config: expected a Python file, got 'gpt_tiny'; did you mean configs/text/gpt_tiny.py?"
    assert capsys.readouterr().err == f"txjax: {expected}\n"
    assert main(["train", "configs/text/gpt_tiny.py", *words]) == 2
    expected = "txjax train: expected --config=FILE, got 'configs/text/gpt_tiny.py'; "
    expected += "did you mean --config=configs/text/gpt_tiny.py?; see txjax train --help"
    assert capsys.readouterr().err == f"txjax: {expected}\n"


def test_the_version(capsys):
    from txjax import __version__

    assert main(["--version"]) == 0
    assert capsys.readouterr().out == f"txjax {__version__}\n"
