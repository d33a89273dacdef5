"""The code of docs/own_components.md runs; and what `--trust` allows."""

import json
import re
import shlex
import sys
from pathlib import Path

import pytest

from txjax import modules
from txjax.__main__ import main
from txjax.types import UserError

pytestmark = pytest.mark.claim("Models and objectives", "components outside the package, and the page about them")

PAGE = Path(__file__).parents[1] / "docs" / "own_components.md"


@pytest.fixture
def forgetful(monkeypatch):
    """Restores `sys.modules` and `sys.path`, at the end or when called."""
    path = [folder for folder in sys.path if folder and Path(folder) not in modules._folders]

    def forget() -> None:
        monkeypatch.setattr(sys, "path", list(path))
        monkeypatch.setattr(modules, "_ours", {})
        monkeypatch.setattr(modules, "_folders", set())
        for name in ("mine", "study", "functions", "beside", "runs_from_elsewhere"):
            sys.modules.pop(name, None)

    forget()
    yield forget
    forget()


@pytest.mark.slow
def test_the_page(tmp_path, monkeypatch, capsys, forgetful):
    """Every code block: files are written, commands are run, each as in a new process."""
    monkeypatch.chdir(tmp_path)
    blocks = re.findall(r"^```(\w+)\n(.*?)^```$", PAGE.read_text(), re.MULTILINE | re.DOTALL)
    assert [kind for kind, _ in blocks] == ["python", "python", "sh", "python", "sh"]
    said = []
    for kind, code in blocks:
        if kind == "python":
            Path(re.match(r"# (\w+\.py)\n", code)[1]).write_text(code)
    for line in [line for kind, code in blocks if kind == "sh" for line in code.splitlines()]:
        forgetful()
        assert main(shlex.split(line)[1:]) == 0, capsys.readouterr().err
        said.append(capsys.readouterr())
    rows = [json.loads(line) for line in Path("runs/mine/metrics.jsonl").read_text().splitlines()]
    assert rows[-1]["eval/same/loss"] < rows[0]["train/loss"] and 0 < rows[-1]["eval/sure/confidence"] < 1
    assert "confidence" in said[1].out and "TextFile" in said[1].out
    assert said[2].out.startswith("def ") and len(said[2].out) > 20
    assert "accuracy" in said[4].out and "Functions" in said[4].out
    assert "Mixer has no cache: each token is computed from the last 64 anew" in said[2].err

    forgetful()
    capsys.readouterr()
    assert main(["evaluate", "--workdir=runs/mine"]) == 2
    err = capsys.readouterr().err
    assert "config.model" in err and "--trust=FOLDER/mine.py" in err and len(err.splitlines()) == 1
    assert "mine" not in sys.modules
    assert main(["evaluate", "--workdir=runs/mine", "--trust=mine"]) == 2
    assert "did you mean mine.py?" in capsys.readouterr().err


def test_a_file_stands_for_itself_and_the_files_beside_it(tmp_path, forgetful):
    for name in ("mine", "beside"):
        (tmp_path / f"{name}.py").write_text("import json\n")
    (tmp_path / "json.py").write_text("raise RuntimeError('not this one')\n")
    (tmp_path / "runs_from_elsewhere").mkdir()
    (tmp_path / "runs_from_elsewhere" / "__init__.py").write_text("raise RuntimeError('it ran')\n")
    assert sorted(modules.trusted_modules([str(tmp_path / "mine.py")])) == ["beside", "mine", "mine"]
    assert "beside" not in sys.modules  # it is not imported before one of its classes is used


@pytest.mark.parametrize(
    ("word", "said"),
    [
        ("nothing_here", "--trust: expected a module that Python finds, or the path of its file"),
        ("mine", "did you mean mine.py?"),
        ("mina.py", "--trust: expected a Python file, got 'mina.py'; did you mean mine.py or"),
        ("json.py", "--trust: expected a file whose name no other module has, got 'json.py'"),
        ("broken.py", "--trust: expected a file whose code runs, got 'broken.py (line 2)'; ZeroDivisionError"),
    ],
)
def test_what_cannot_be_trusted_is_one_line(tmp_path, monkeypatch, forgetful, word, said):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine.py").write_text("")
    (tmp_path / "json.py").write_text("")
    (tmp_path / "broken.py").write_text("\n1 / 0\n")
    with pytest.raises(UserError) as error:
        modules.trusted_modules([word])
    assert said in str(error.value) and "\n" not in str(error.value)
    assert "broken" not in sys.modules
