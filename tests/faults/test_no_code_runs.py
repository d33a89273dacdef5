"""Loading anything never executes code: payloads in every file that is read, and what the source may not call."""

import ast
import gc
import json
import os
import pickle
import shutil
import sys
from pathlib import Path

import numpy as np
import pytest

from txjax import config as configs
from txjax import digest, sharding
from txjax.__main__ import main
from txjax.checkpoint import Store
from txjax.data import SentencePieceFile, TokenizerFile, cache, records
from txjax.data.records import Records
from txjax.interop import huggingface
from txjax.train.state import lay_out
from txjax.types import Failure, UserError, flat_paths

PACKAGE = Path(__file__).parents[2] / "txjax"


class Payload:
    """Unpickling it makes a file."""

    def __init__(self, marker: Path):
        self.marker = str(marker)

    def __reduce__(self):
        return os.mkdir, (self.marker,)


@pytest.fixture
def marker(tmp_path):
    path = tmp_path / "it ran"
    pickle.loads(pickle.dumps(Payload(path)))  # the payload works
    path.rmdir()
    yield path
    assert not path.exists()


# What Orbax had begun when it failed is told by Python when it is collected.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning", "ignore:coroutine:RuntimeWarning")
def test_in_every_file_of_a_checkpoint(marker, straight_run, config, tmp_path):
    """The digests are made anew, as one who means harm would: it is an error, or the arrays as they were."""
    workdir = tmp_path / "run"
    shutil.copytree(straight_run, workdir)
    store, experiment, payload = Store(workdir), configs.load(str(config), []), pickle.dumps(Payload(marker))
    with sharding.use(experiment.mesh) as built:
        abstract = lay_out(experiment, built).abstract
        whole = flat_paths(store.restore(abstract)[0])
        files = [p for p in sorted(store.path(40).rglob("*")) if p.is_file() and p.name != digest.NAME]
        refused = 0
        for file in files:
            content = file.read_bytes()
            file.write_bytes(payload)
            digest.commit(store.path(40))
            try:
                found, _ = store.restore(abstract)
            except (UserError, Failure) as error:
                assert "\n" not in str(error)
                refused += 1
            else:
                for path, array in flat_paths(found).items():
                    assert np.asarray(array).tobytes() == np.asarray(whole[path]).tobytes(), (file, path)
            assert not marker.exists(), file
            file.write_bytes(content)
    assert refused >= 3 and len(files) > 8
    gc.collect()


def test_in_a_config(straight_run, tmp_path, monkeypatch, capsys):
    (tmp_path / "evil.py").write_text(f"import os; os.mkdir({str(tmp_path / 'imported')!r})")
    monkeypatch.syspath_prepend(str(tmp_path))
    workdir = tmp_path / "run"
    shutil.copytree(straight_run, workdir)
    written = json.loads((workdir / "config.json").read_text())
    written["optimizer"]["schedule"] = {"class": "evil.Schedule"}
    (workdir / "config.json").write_text(json.dumps(written))
    assert main(["evaluate", f"--workdir={workdir}"]) == 2
    assert "a class of txjax or of a module named with --trust" in capsys.readouterr().err
    assert not (tmp_path / "imported").exists() and "evil" not in sys.modules


def test_in_a_prepared_data_set(tmp_path, monkeypatch):
    """TFDS imports what `features.json` names."""
    (tmp_path / "evil.py").write_text(f"import os; os.mkdir({str(tmp_path / 'imported')!r})")
    monkeypatch.syspath_prepend(str(tmp_path))
    Records("txjax_digits", "test", None, ["label"])
    new = tmp_path / "squiggles" / "1.0.0"
    shutil.copytree(records.folder("txjax_digits", None) / "txjax_digits" / "1.0.0", new)
    text = (new / "features.json").read_text()
    named = json.loads(text)["pythonClassName"]
    (new / "features.json").write_text(text.replace(f'"{named}"', '"evil.Features"'))
    with pytest.raises(UserError, match=r"features.json: expected features of TFDS's own, got 'evil.Features'"):
        records.check("squiggles", "test", str(tmp_path))
    assert not (tmp_path / "imported").exists()


def test_in_tokenizer_files(marker, tmp_path):
    for kind, name in ((TokenizerFile, "tokenizer.json"), (SentencePieceFile, "pieces.model")):
        (tmp_path / name).write_bytes(pickle.dumps(Payload(marker)))
        with pytest.raises(UserError):
            kind(path=str(tmp_path / name)).check()


def test_in_arrays_of_the_cache(marker, tmp_path, monkeypatch):
    """An array of objects is a pickle: the cache takes it for damage and builds the array again."""
    monkeypatch.setenv("TXJAX_CACHE_DIR", str(tmp_path / "cache"))

    def build(folder: Path) -> None:
        np.save(folder / "labels.npy", np.arange(3))

    def opened() -> np.ndarray:
        return cache.built("labels", {"of": "a test"}, build, lambda folder: np.load(folder / "labels.npy"))

    opened()
    (file,) = (tmp_path / "cache").rglob("labels.npy")
    np.save(file, np.array([Payload(marker)], dtype=object), allow_pickle=True)
    digest.commit(file.parent)
    np.testing.assert_array_equal(opened(), np.arange(3))


@pytest.mark.parametrize("name", ["model.safetensors", "pytorch_model.bin", "model.pt", "last.ckpt", "weights.pkl"])
def test_in_weights_of_others(marker, tmp_path, name):
    folder = tmp_path / "weights"
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps({"model_type": "gpt2", "architectures": ["GPT2Model"]}))
    (folder / name).write_bytes(pickle.dumps(Payload(marker)))
    with pytest.raises(UserError, match="safetensors"):
        huggingface.load(folder)


BANNED_IMPORTS = {"pickle", "cloudpickle", "dill", "joblib", "marshal", "shelve", "torch", "tarfile", "zipfile"}
HARMLESS = {"joblib.Parallel", "joblib.delayed"}  # they start processes and read no file
BANNED_CALLS = {"eval", "exec", "compile", "__import__", "unpack_archive", "system", "popen"}


def harm(source: str) -> list[str]:
    """What a file does that could run code from files, or hand text to a shell."""
    found = []
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            found += [a.name for a in node.names if a.name.split(".")[0] in BANNED_IMPORTS]
        elif isinstance(node, ast.ImportFrom):
            names = {f"{node.module}.{alias.name}" for alias in node.names} - HARMLESS
            found += [name for name in names if name.split(".")[0] in BANNED_IMPORTS]
        elif isinstance(node, ast.Call):
            name = ast.unparse(node.func)
            if name in BANNED_CALLS or name.startswith("os.") and name.split(".")[-1] in BANNED_CALLS:
                found.append(name)
            found += [name] if name in ("torch.load", "yaml.load", "yaml.unsafe_load", "shutil.unpack_archive") else []
            found += [
                f"{keyword.arg}=True"
                for keyword in node.keywords
                if keyword.arg in ("allow_pickle", "trust_remote_code", "shell")
                and not (isinstance(keyword.value, ast.Constant) and keyword.value.value is False)
            ]
    return found


@pytest.mark.parametrize("path", sorted(PACKAGE.rglob("*.py")), ids=lambda p: str(p.relative_to(PACKAGE)))
def test_the_source_has_no_way_to(path):
    assert not harm(path.read_text())


@pytest.mark.parametrize(
    "line",
    ["import pickle", "from torch import load", "from joblib import Parallel, load",
     "eval(x)", "np.load(f, allow_pickle=True)", "yaml.load(f)", "exec(x)",
     "subprocess.run(x, shell=True)", "os.system(x)", "import tarfile as t", "shutil.unpack_archive(x)"],
)  # fmt: skip
def test_harm_is_found(line):
    assert harm(line)


def test_harmless_lines_are_not():
    assert not harm("jax.jit(f).lower(x).compile(); model.eval(); np.load(f, allow_pickle=False); re.compile('x')")
