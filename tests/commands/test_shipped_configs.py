"""The configs that come with txjax: by name, listed, copied, and in the wheel."""

import json
import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from txjax import config
from txjax.__main__ import main
from txjax.types import UserError

from helpers import runs

ROOT = Path(__file__).parents[2]

pytestmark = pytest.mark.claim("Data", "configs that come with txjax run by name, and are listed and copied")


def test_a_name_is_the_file_of_that_name():
    assert config.load("txjax:text/gpt_tiny", []) == config.load(str(ROOT / "configs/text/gpt_tiny.py"), [])
    chosen = config.read("txjax:text/glue:mrpc")
    assert chosen.variant == "mrpc" and chosen.path.name == "glue.py"
    with pytest.raises(
        UserError, match="--config: expected a config of txjax, .*; did you mean txjax:vision/vit_digits"
    ):
        config.read("txjax:vit_digits")
    with pytest.raises(UserError, match="--config: expected a variant of .*glue.py, got 'mrp'; did you mean mrpc"):
        config.read("txjax:text/glue:mrp")


def test_all_are_listed_with_what_they_train(capsys):
    assert main(["configs", "--json"]) == 0
    listed = json.loads(capsys.readouterr().out)
    assert set(listed) == {f"{path.parent.name}/{path.stem}" for path in (ROOT / "configs").glob("*/*.py")}
    assert all(len(text) > 20 and text.endswith((".", "?")) for text in listed.values())
    assert main(["configs", "scanned digits"]) == 0
    assert "txjax:vision/vit_digits" in capsys.readouterr().out
    assert main(["configs", "nothing of the kind"]) == 2


def test_a_copy_is_a_config_of_ones_own(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert main(["configs", "--copy=text/gpt_tiny"]) == 0
    assert "txjax train --config=gpt_tiny.py" in capsys.readouterr().out
    assert config.load("gpt_tiny.py", []) == config.load("txjax:text/gpt_tiny", [])
    for flags, message in (
        (["--copy=text/gpt_tiny"], "--to: expected a new file, got 'gpt_tiny.py'"),
        (["--copy=text/gpt_tiny", "--to=no/a.py"], "--to: expected a file in a folder that is there, got 'no/a.py'"),
        (["--copy=gpt_tiny"], "--copy: expected a config of txjax, got 'txjax:gpt_tiny'; did you mean txjax:text/gpt_"),
        (["--to=a.py"], "--to: expected --copy=NAME too"),
    ):
        assert main(["configs", *flags]) == 2
        assert message in capsys.readouterr().err


@pytest.mark.slow
def test_the_wheel_runs_them_from_an_empty_folder(tmp_path):
    build = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", f"--wheel-dir={tmp_path}", str(ROOT)]
    subprocess.run(build, check=True, capture_output=True)
    (wheel,) = tmp_path.glob("txjax-*.whl")
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(tmp_path / "installed")
    (tmp_path / "empty").mkdir()
    words = ["train", "--config=txjax:text/gpt_tiny", "--workdir=run", "--dry_run"]
    done = subprocess.run(
        [sys.executable, "-c", "import sys, txjax; from txjax.__main__ import main; sys.exit(main())", *words],
        cwd=tmp_path / "empty",
        env=runs.environment() | {"PYTHONPATH": str(tmp_path / "installed"), "PYTHONSAFEPATH": "1"},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    assert "examples: train" in done.stdout
    assert (tmp_path / "installed" / "txjax" / "py.typed").is_file()
    names = {os.path.relpath(path, ROOT) for path in (ROOT / "configs").glob("*/*.py")}
    assert names == {
        os.path.relpath(p, tmp_path / "installed/txjax") for p in tmp_path.glob("installed/txjax/configs/*/*.py")
    }
