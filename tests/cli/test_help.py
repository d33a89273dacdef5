"""The help of every command is there without JAX, whose import takes longer than all else."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from txjax.cli import dispatch

from helpers import runs

pytestmark = pytest.mark.claim("Documentation", "the help of each command imports neither JAX nor NumPy")
PACKAGES = {"txjax.commands": [], "txjax.commands.data": ["data"], "txjax.commands.scaling": ["scaling"]}
CODE = """
import contextlib, io, json, sys
from txjax.__main__ import main

texts = []
for words in json.loads(sys.argv[1]):
    with contextlib.redirect_stdout(io.StringIO()) as text, contextlib.suppress(SystemExit):
        main([*words, "--help"])
    texts.append(text.getvalue())
print(json.dumps([texts, [name for name in ("jax", "numpy") if name in sys.modules]]))
"""


def test_help_imports_no_jax(tmp_path: Path) -> None:
    commands = [[*prefix, name] for package, prefix in PACKAGES.items() for name in dispatch.names(package)]
    words = [sys.executable, "-c", CODE, json.dumps([[], *commands])]
    ended = subprocess.run(words, env=runs.environment(), cwd=tmp_path, capture_output=True, text=True)
    assert ended.returncode == 0, ended.stderr
    texts, imported = json.loads(ended.stdout)
    assert all(text.startswith("usage: txjax") for text in texts) and not imported


def test_a_misspelled_field_imports_no_trainer(tmp_path: Path) -> None:
    flags = ["train", "--config=txjax:text/gpt_tiny", "--workdir=new", "--config.batch_sise=3"]
    code = f"import sys; from txjax.__main__ import main; print(main({flags}), 'txjax.train.trainer' in sys.modules)"
    ended = subprocess.run(
        [sys.executable, "-c", code], env=runs.environment(), cwd=tmp_path, capture_output=True, text=True
    )
    assert ended.stdout == "2 False\n" and "did you mean batch_size" in ended.stderr
