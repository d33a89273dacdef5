"""The wheel and the sdist, in environments of their own: what they need, on the oldest and the newest versions.

They are built and installed by uv (the extra `release`) from the registry; without a network they are skipped.
"""

import os
import re
import subprocess
import sys
import textwrap
import tomllib
from pathlib import Path

import pytest

pytestmark = [
    pytest.mark.slow,
    pytest.mark.turn("distribution"),
    pytest.mark.claim(
        "Distribution",
        "wheel and sdist install on the oldest and newest Python and versions, change no older JAX, and train",
    ),
]

ROOT = Path(__file__).parents[1]
PYTHONS = ("3.11", "3.12", "3.13", "3.14")
PACKAGES = 84  # of an installation without extras, txjax among them
# Days on which pip installed these versions of JAX, with the other packages of that day.
DAYS = {"0.8.0": "2025-10-23", "0.8.1": "2025-11-20", "0.8.2": "2025-12-19"}
# What versions as old as the lower bounds need of packages that they name without an upper bound.
OLD_COMPANIONS = (
    "protobuf<6",  # later ones have no `FieldDescriptor.label`, which TFDS 4.9.9 reads
    "tensorflow-metadata<1.18",  # later ones need Protobuf 6
    "pyparsing<3.2",  # Matplotlib 3.9 calls its deprecated names, and the tests make warnings errors
)
# Orbax before 0.11.33 runs in event loops that nest_asyncio makes, and leaves their end to Python.
OLD_WARNINGS = "ignore:unclosed:ResourceWarning"
# Tests that call the libraries: whole runs, checkpoints, several processes, optimizers, Grain's packer and workers,
# SciPy's sequences.
OLD_TESTS = (
    "tests/python/test_python_runs.py::test_scores_and_texts_are_the_commands",
    "tests/test_checkpoint.py",
    "tests/distributed",
    "tests/optim/test_optimizers.py",
    "tests/data/test_packed.py",
    "tests/data/test_workers.py",
    "tests/sweep/test_points.py",
)
USER_FILE = """
    import txjax

    run = txjax.fit("txjax:text/gpt_tiny", "run", until=2)
    scores = run.evaluate()
    text: str = txjax.open("run").generate("def ", length=4)[0]
    reveal_type(txjax.open("run"))
    txjax.fit(3)
"""


def uv(*words: object) -> str:
    """Runs uv; the test is skipped if the registry can't be reached, and fails if uv does."""
    pytest.importorskip("uv", reason="uv is not installed: pip install '.[release]'")
    done = run([sys.executable, "-m", "uv", *map(str, words)], ROOT)
    if any(reason in done.stderr for reason in ("Failed to fetch", "error sending request", "network was disabled")):
        pytest.skip("no registry can be reached")
    assert done.returncode == 0, done.stderr
    return done.stdout + (done.stderr if "--dry-run" in words else "")


def run(command: list[str], folder: Path, **variables: str) -> subprocess.CompletedProcess[str]:
    """Runs a command in a folder, without this environment's packages and XLA's flags, which are of its version."""
    removed = ("PYTHONPATH", "VIRTUAL_ENV", "XLA_FLAGS")
    environment = {name: text for name, text in os.environ.items() if name not in removed}
    return subprocess.run(command, cwd=folder, env=environment | variables, capture_output=True, text=True)


def interpreter(version: str) -> Path:
    """A Python of this version that runs, also one that pyenv keeps. Skips the test where there is none."""
    kept = Path.home().glob(f".pyenv/versions/{version}.*/bin")
    for folder in [*map(Path, os.environ["PATH"].split(os.pathsep)), *kept]:
        path = folder / f"python{version}"
        if path.is_file() and subprocess.run([path, "-c", ""], capture_output=True).returncode == 0:
            return path
    pytest.skip(f"no Python {version} is here")


@pytest.fixture(scope="module")
def built(tmp_path_factory) -> Path:
    """A folder with the sdist of this checkout, and the wheel that is built from that sdist."""
    folder = tmp_path_factory.mktemp("dist")
    uv("build", "--quiet", "--out-dir", folder, ROOT)
    return folder


def environment(folder: Path, version: str, *requirements: object) -> Path:
    """The Python of a new environment with these packages."""
    python = folder / "environment" / "bin" / "python"
    uv("venv", "--quiet", "--python", interpreter(version), folder / "environment")
    uv("pip", "install", "--quiet", "--python", python, *requirements)
    return python


def changes(python: Path, wheel: Path) -> list[str]:
    """What installing the wheel would change, such as "+ jax==0.10.2", apart from adding txjax."""
    lines = re.findall(r"(?m)^ ([-+~] .*)", uv("pip", "install", "--dry-run", "--python", python, wheel))
    assert any(line.startswith("+ txjax") for line in lines)
    return [line for line in lines if not line.startswith("+ txjax")]


def train_and_evaluate(python: Path, folder: Path) -> list[subprocess.CompletedProcess[str]]:
    """Runs both commands of this environment in a folder, on a small model; they must succeed."""
    folder.mkdir()
    small = ["--smoke", "--config.model.depth=1", "--config.model.width=16", "--config.model.heads=2"]
    commands = (["train", "--config=txjax:text/gpt_tiny", "--workdir=run", *small], ["evaluate", "--workdir=run"])
    done = [run([str(python.parent / "txjax"), *words], folder) for words in commands]
    assert [process.returncode for process in done] == [0, 0], [process.stderr for process in done]
    return done


@pytest.mark.parametrize("version", PYTHONS)
def test_all_extras_resolve_together(version):
    names = uv("pip", "compile", "--quiet", "--all-extras", "--python-version", version, "pyproject.toml")
    assert "\njax==" in names and "\ntorch==" in names


def test_the_descriptions_of_wheel_and_sdist_are_valid(built):
    pytest.importorskip("twine", reason="twine is not installed: pip install '.[release]'")
    files = sorted(map(str, built.glob("txjax-*")))
    assert [Path(file).suffix for file in files] == [".whl", ".gz"]
    done = run([sys.executable, "-m", "twine", "check", "--strict", *files], ROOT)
    assert done.returncode == 0, done.stdout


@pytest.mark.parametrize("version", ("3.11", "3.13", "3.14"))
def test_an_empty_environment_trains_and_evaluates(version, built, tmp_path):
    (wheel,) = built.glob("*.whl")
    python = environment(tmp_path, version, wheel)
    assert "loss" in train_and_evaluate(python, tmp_path / "empty")[1].stdout
    assert {path.name for path in (tmp_path / "empty").iterdir()} == {"run"}
    assert len(uv("pip", "freeze", "--python", python).splitlines()) <= PACKAGES


@pytest.mark.parametrize("jax", DAYS)
def test_nothing_changes_beside_an_earlier_jax(jax, built, tmp_path):
    """In an environment with what pip installed on a day of that JAX, which then trains without a warning."""
    needed = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["dependencies"]
    names = [requirement.partition(">")[0] for requirement in needed]
    python = environment(tmp_path, PYTHONS[0], f"--exclude-newer={DAYS[jax]}", *names)
    assert f"\njax=={jax}\n" in uv("pip", "freeze", "--python", python)
    (wheel,) = built.glob("*.whl")
    assert changes(python, wheel) == []
    uv("pip", "install", "--quiet", "--python", python, wheel)
    for done in train_and_evaluate(python, tmp_path / "empty"):
        assert "warning" not in done.stderr.lower(), done.stderr


def test_the_wheel_runs_without_an_installation(built):
    (wheel,) = built.glob("*.whl")
    usage = uv("tool", "run", "--isolated", "--python", interpreter(PYTHONS[0]), "--from", wheel, "txjax", "--help")
    assert usage.startswith("usage: txjax COMMAND") and "  train " in usage


def test_types_of_an_installed_wheel(built, tmp_path):
    pytest.importorskip("mypy", reason="mypy is not installed: pip install '.[dev]'")
    (wheel,) = built.glob("*.whl")
    python = environment(tmp_path, PYTHONS[0], wheel)
    (tmp_path / "use.py").write_text(textwrap.dedent(USER_FILE))
    mypy = [sys.executable, "-m", "mypy", f"--python-executable={python}", f"--cache-dir={tmp_path}", "use.py"]
    lines = run(mypy, tmp_path).stdout.splitlines()
    reported = [line.partition(": ")[2] for line in lines if line.startswith("use.py")]
    assert len(reported) == 3, lines
    assert 'Revealed type is "txjax.' in reported[0]
    assert all(line.startswith("error: ") and '"fit"' in line for line in reported[1:])


def test_the_oldest_versions(built, tmp_path):
    """The lower bounds of pyproject.toml on the oldest Python pass tests that call each of the libraries.

    Beside them the wheel installs without changing a package.
    """
    bounds = uv(
        "pip",
        "compile",
        "--quiet",
        "--resolution=lowest-direct",
        "--no-deps",
        "--python-version=3.11",
        "pyproject.toml",
    )
    assert f"jax=={next(iter(DAYS))}\n" in bounds
    (tmp_path / "oldest.txt").write_text("\n".join([bounds, *OLD_COMPANIONS]))
    tools = ("pytest", "pytest-xdist", "filelock", "beartype", "pyyaml", "pillow", "scikit-learn", "pandas", "pyarrow")
    python = environment(tmp_path, PYTHONS[0], "-r", tmp_path / "oldest.txt", *tools)
    (wheel,) = built.glob("*.whl")
    assert changes(python, wheel) == []
    done = run([str(python), "-m", "pytest", "-W", OLD_WARNINGS, *OLD_TESTS], ROOT, PYTHONPATH=str(ROOT))
    assert done.returncode == 0, done.stdout[-3000:]
