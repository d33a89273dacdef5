"""`--help` with a config lists its fields."""

from pathlib import Path

import pytest

from txjax import config as configs
from txjax import tree
from txjax.__main__ import main
from txjax.cli.fields import fields

from selection import describe_config, per_family

ROOT = Path(__file__).parents[2]


def helped(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    with pytest.raises(SystemExit) as caught:
        main(list(words))
    assert caught.value.code == 0
    return capsys.readouterr().out


def test_every_field_with_type_value_and_a_line(config, capsys):
    named = ("train", f"--config={config}", "--config.model.positions=Rotary(theta=500)", "--config.seed", "3")
    out = helped(capsys, *named, "--help")
    lines = dict(line.split("=", 1) for line in out.splitlines() if line.startswith("--config."))
    paths = [path for path, _ in tree.walk(configs.load(str(config), ["--config.model.positions=Rotary()"]))]
    assert list(lines) == [f"--{path}" for path in paths[1:]]
    assert lines["--config.seed"].split("  ")[0] == "3"
    assert lines["--config.num_steps"].endswith("  a whole number, at least 1: updates of the whole run")
    assert "one of raise, skip: at a non-finite loss" in lines["--config.on_nonfinite"]
    assert lines["--config.model.positions"].startswith("Rotary(...)") and "Alibi" in lines["--config.model.positions"]
    assert "500.0  " in lines["--config.model.positions.theta"] and "more than 1: Rotates" in out
    assert "usage: txjax train" in out
    assert helped(capsys, "plan", "-h", f"--config={config}").count("--config.num_steps=") == 1


def test_without_a_config_the_help_says_how(capsys):
    out = helped(capsys, "train", "--help")
    assert "with --help: every field" in " ".join(out.split()) and "--config.num_steps" not in out


def test_a_mistake_beside_help_is_one_line(config, capsys):
    assert main(["train", f"--config={config}", "--config.model.widht=3", "--help"]) == 2
    assert "did you mean width?" in capsys.readouterr().err


@per_family("source", describe_config, seconds=0.2, budget=2, cover=False)
@pytest.mark.parametrize("source", [str(path.relative_to(ROOT)) for path in sorted((ROOT / "configs").rglob("*.py"))])
def test_every_line_of_a_config_says_something(source):
    for line in fields(configs.load(str(ROOT / source), [])):
        assert line[line.index("=") :].partition("  ")[2].strip(), line
