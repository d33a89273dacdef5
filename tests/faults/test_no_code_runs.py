"""Loading never executes code: payloads in every file that is read, and functions that the source may not call."""

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
from txjax import sharding
from txjax.__main__ import main
from txjax.checkpoint import Store
from txjax.data import SentencePieceFile, TokenizerFolder
from txjax.data.loading import disk_cache
from txjax.data.tfds import records
from txjax.data.tfds.records import Records
from txjax.errors import RunError, UserError
from txjax.interop import huggingface
from txjax.io import digest
from txjax.train.state.state import build_layout
from txjax.types import flat_paths

PACKAGE = Path(__file__).parents[2] / "txjax"


class Payload:
    """Unpickling it creates a file."""

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


# Python warns when the unfinished work of a failed Orbax call is garbage-collected.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning", "ignore:coroutine:RuntimeWarning")
def test_in_every_file_of_a_checkpoint(marker, straight_run, config, tmp_path):
    """With recomputed digests, as an attacker would write: an error, or the arrays as they were."""
    workdir = tmp_path / "run"
    shutil.copytree(straight_run, workdir)
    store, experiment = Store(workdir), configs.load(str(config), [])
    payload = pickle.dumps(Payload(marker))
    with sharding.use_mesh(experiment.mesh) as built:
        abstract = build_layout(experiment, built).abstract
        whole = flat_paths(store.restore(abstract)[0])
        files = [p for p in sorted(store.path(40).rglob("*")) if p.is_file() and p.name != digest.NAME]
        refused = 0
        for file in files:
            content = file.read_bytes()
            file.write_bytes(payload)
            digest.commit(store.path(40))
            try:
                found, _ = store.restore(abstract)
            except (UserError, RunError) as error:
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


@pytest.fixture
def evil(tmp_path, monkeypatch):
    """A package whose import creates a folder, which must not exist at the end."""
    (tmp_path / "modules" / "evil").mkdir(parents=True)
    (tmp_path / "modules" / "evil" / "__init__.py").write_text(f"import os; os.mkdir({str(tmp_path / 'imported')!r})")
    monkeypatch.syspath_prepend(str(tmp_path / "modules"))
    yield "evil.Features"
    assert not (tmp_path / "imported").exists() and "evil" not in sys.modules


@pytest.fixture
def squiggles(tmp_path):
    """The folder of a prepared data set whose code is not installed."""
    Records("txjax_digits", "test", None, ["label"])
    new = tmp_path / "data" / "squiggles" / "1.0.0"
    shutil.copytree(records.folder("txjax_digits", None) / "txjax_digits" / "1.0.0", new)
    info = json.loads((new / "dataset_info.json").read_text())
    (new / "dataset_info.json").write_text(json.dumps(info | {"name": "squiggles"}))
    for path in list(new.iterdir()):
        path.rename(path.with_name(path.name.replace("txjax_digits", "squiggles")))
    return new


DICT = "tensorflow_datasets.core.features.features_dict.FeaturesDict"
FOREIGN = {
    "protobuf's JSON name": '{"pythonClassName": "evil.Features", "featuresDict": {}}',
    "protobuf's own name": '{"python_class_name": "evil.Features", "features_dict": {}}',
    "an escape in the key": '{"python\\u0043lassName": "evil.Features", "featuresDict": {}}',
    "an escape in the value": '{"pythonClassName": "\\u0065vil.Features", "featuresDict": {}}',
    "TFDS's older form": '{"type": "evil.Features", "content": {}}',
    "the first of two": f'{{"pythonClassName": "evil.Features", "pythonClassName": "{DICT}", "featuresDict": {{}}}}',
    "the last of two": f'{{"pythonClassName": "{DICT}", "pythonClassName": "evil.Features", "featuresDict": {{}}}}',
    "a nested feature": json.dumps(
        {"pythonClassName": DICT, "featuresDict": {"features": {"x": {"python_class_name": "evil.Features"}}}}
    ),
    "the older form, nested": json.dumps({"type": DICT, "content": {"x": {"type": "evil.Features", "content": {}}}}),
    "JSON in a text": json.dumps(
        {"pythonClassName": DICT, "jsonFeature": {"json": json.dumps({"x": {"type": "evil.Features", "content": {}}})}}
    ),
    "JSON in the older form's text": json.dumps(
        {
            "type": DICT,
            "proto_cls": "tensorflow_datasets.FeaturesDict",
            "content": json.dumps({"features": {"x": {"pythonClassName": "evil.Features", "text": {}}}}),
        }
    ),
    "a module inside TFDS": '{"pythonClassName": "tensorflow_datasets.core.features.test_feature.Custom"}',
    "a class of TFDS that is no feature": '{"pythonClassName": "tensorflow_datasets.core.DatasetBuilder"}',
}


@pytest.mark.parametrize("form", FOREIGN)
@pytest.mark.parametrize("checked", ["before TFDS", "by TFDS"])
def test_in_a_prepared_data_set(evil, squiggles, monkeypatch, form, checked):
    """TFDS imports what `features.json` names: both checks reject foreign classes."""
    (squiggles / "features.json").write_text(FOREIGN[form])
    if checked == "by TFDS":
        if form == "the first of two":
            pytest.skip("the last one counts, and is TFDS's")
        monkeypatch.setattr("txjax.data.tfds.feature_classes.check_file", lambda path: None)
    with pytest.raises(UserError, match=r"/squiggles.*: expected features of TFDS's own, got ") as error:
        records.check("squiggles", "test", str(squiggles.parents[1]))
    assert "\n" not in str(error.value)
    assert "tensorflow_datasets.core.features.test_feature" not in sys.modules


@pytest.mark.parametrize(
    "place", ["1.0.0/dataset_info.json", "fine/1.0.0/features.json", "fine/1.0.0/dataset_info.json"]
)
def test_in_every_file_of_a_prepared_data_set(evil, squiggles, place):
    """`dataset_info.json` has a field `features`, and `moduleName`, which is only shown."""
    shutil.copytree(squiggles, squiggles.parent / "fine" / "1.0.0")
    file = squiggles.parent / place
    found = json.loads(file.read_text())
    changed = {"features": {"pythonClassName": evil, "featuresDict": {}}, "moduleName": "evil.builder"}
    file.write_text(json.dumps(found | (changed if file.name == "dataset_info.json" else changed["features"])))
    with pytest.raises(UserError, match=rf"{file}: expected features of TFDS's own, got 'evil.Features'"):
        records.check("squiggles", "test", str(squiggles.parents[1]))


def test_in_the_folder_that_a_default_config_names(evil, squiggles):
    """The name of the default config is a path, too."""
    hidden = squiggles.parent / "a" / "b" / "1.0.0"
    hidden.parent.mkdir(parents=True)
    squiggles.rename(hidden)
    (hidden / "features.json").write_text(FOREIGN["protobuf's JSON name"])
    (squiggles.parent / ".config").mkdir()
    (squiggles.parent / ".config" / "metadata.json").write_text('{"default_config_name": "a/b"}')
    with pytest.raises(UserError, match=r"squiggles: expected features of TFDS's own, got 'evil.Features'"):
        records.check("squiggles", "test", str(squiggles.parents[1]))


@pytest.mark.parametrize("text", ["", "{", '{"a": 1}]', "[" * 100_000, "\ufeff{}"])
def test_a_prepared_data_set_without_json(squiggles, text):
    (squiggles / "features.json").write_text(text)
    with pytest.raises(UserError, match=r"squiggles/1.0.0/features.json: expected JSON; \w+Error: ") as error:
        records.check("squiggles", "test", str(squiggles.parents[1]))
    assert "\n" not in str(error.value)


def test_a_prepared_data_set_with_safe_names(evil, squiggles):
    """Features and texts may have any names; the name of a module is only shown."""
    text = {"pythonClassName": "tensorflow_datasets.core.features.text_feature.Text", "text": {}}
    fields = dict.fromkeys(("type", "content", "pythonClassName"), text | {"description": '{"not": json'})
    features = {"pythonClassName": DICT, "featuresDict": {"features": fields}}
    (squiggles / "features.json").write_text(json.dumps(features))
    info = json.loads((squiggles / "dataset_info.json").read_text())
    (squiggles / "dataset_info.json").write_text(json.dumps(info | {"moduleName": "evil.builder"}))
    assert set(records.check("squiggles", "test", str(squiggles.parents[1]))) == set(fields)


@pytest.mark.parametrize(
    "name",
    ["huggingface:evil/features", "mlcroissant:evil", "kaggle:evil", "evil:squiggles/1", "squiggles/data_dir=elsewhere",
     "Squiggles", "../squiggles", "squiggles/..:1.0.0"],
)  # fmt: skip
def test_data_set_names_are_folder_names(evil, squiggles, monkeypatch, name):
    """No namespace, which runs code or uses the network; no arguments of a builder; no path."""
    monkeypatch.setattr("socket.socket.connect", lambda *_: pytest.fail("the network was asked"))
    with pytest.raises(UserError, match=r"data.name: expected a TFDS data set as NAME, NAME/CONFIG"):
        records.check(name, "test", str(squiggles.parents[1]))


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"name": "squiggles"}, "features.json: expected features of TFDS's own, got 'evil.Features'"),
        (
            {"name": "huggingface:squiggles"},
            "data.name: expected a TFDS data set as NAME, NAME/CONFIG",
        ),
    ],
)
def test_in_the_data_that_a_config_names(evil, squiggles, straight_run, tmp_path, capsys, settings, message):
    """A workdir's `config.json` names the data that `evaluate` opens."""
    (squiggles / "features.json").write_text(FOREIGN["protobuf's own name"])
    workdir = tmp_path / "run"
    shutil.copytree(straight_run, workdir)
    written = json.loads((workdir / "config.json").read_text())
    written["evals"]["valid"]["data"] |= {"data_dir": str(squiggles.parents[1])} | settings
    (workdir / "config.json").write_text(json.dumps(written))
    assert main(["evaluate", f"--workdir={workdir}"]) == 2
    err = capsys.readouterr().err
    assert message in err and err.count("\n") == 1


def test_in_tokenizer_files(marker, tmp_path):
    for kind, name in ((TokenizerFolder, "tokenizer.json"), (SentencePieceFile, "pieces.model")):
        (tmp_path / name).write_bytes(pickle.dumps(Payload(marker)))
        with pytest.raises(UserError):
            kind(path=str(tmp_path / name)).check()


def test_in_arrays_of_the_cache(marker, tmp_path, monkeypatch):
    """An array of objects is a pickle: the cache treats it as damaged and builds the array again."""
    monkeypatch.setenv("TXJAX_CACHE_DIR", str(tmp_path / "cache"))

    def build(folder: Path) -> None:
        np.save(folder / "labels.npy", np.arange(3))

    def opened() -> np.ndarray:
        return disk_cache.get_or_build("labels", {"of": "a test"}, build, lambda folder: np.load(folder / "labels.npy"))

    opened()
    (file,) = (tmp_path / "cache").rglob("labels.npy")
    np.save(file, np.array([Payload(marker)], dtype=object), allow_pickle=True)
    digest.commit(file.parent)
    np.testing.assert_array_equal(opened(), np.arange(3))


@pytest.mark.parametrize("name", ["model.safetensors", "pytorch_model.bin", "model.pt", "last.ckpt", "weights.pkl"])
def test_in_weights_of_other_frameworks(marker, tmp_path, name):
    folder = tmp_path / "weights"
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps({"model_type": "gpt2", "architectures": ["GPT2Model"]}))
    (folder / name).write_bytes(pickle.dumps(Payload(marker)))
    with pytest.raises(UserError, match="safetensors"):
        huggingface.load(folder)


BANNED_IMPORTS = {"pickle", "cloudpickle", "dill", "joblib", "marshal", "shelve", "torch", "tarfile", "zipfile"}
READ_ARCHIVES = {f"tarfile.{name}" for name in ("BLOCKSIZE", "NUL", "TarError", "TarFile")}  # and write no member
SAFE = {"joblib.Parallel", "joblib.delayed", *READ_ARCHIVES}  # the first two start processes and read no file
BANNED_CALLS = {"eval", "exec", "compile", "__import__", "unpack_archive", "system", "popen"}


def unsafe_calls(source: str) -> list[str]:
    """The calls of a file that could run code from files, or pass text to a shell."""
    found = []
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            found += [a.name for a in node.names if a.name.split(".")[0] in BANNED_IMPORTS]
        elif isinstance(node, ast.ImportFrom):
            names = {f"{node.module}.{alias.name}" for alias in node.names} - SAFE
            found += [name for name in names if name.split(".")[0] in BANNED_IMPORTS]
        elif isinstance(node, ast.Call):
            name = ast.unparse(node.func)
            if name in BANNED_CALLS or name.startswith("os.") and name.split(".")[-1] in BANNED_CALLS:
                found.append(name)
            found += [name] if name.split(".")[-1] in ("extract", "extractall") else []
            found += [name] if name in ("torch.load", "yaml.load", "yaml.unsafe_load", "shutil.unpack_archive") else []
            found += [
                f"{keyword.arg}=True"
                for keyword in node.keywords
                if keyword.arg in ("allow_pickle", "trust_remote_code", "shell")
                and not (isinstance(keyword.value, ast.Constant) and keyword.value.value is False)
            ]
    return found


def test_the_source_calls_no_unsafe_function():
    assert not {str(path): found for path in sorted(PACKAGE.rglob("*.py")) if (found := unsafe_calls(path.read_text()))}


@pytest.mark.parametrize(
    "line",
    ["import pickle", "from torch import load", "from joblib import Parallel, load",
     "eval(x)", "np.load(f, allow_pickle=True)", "yaml.load(f)", "exec(x)",
     "subprocess.run(x, shell=True)", "os.system(x)", "import tarfile as t", "archive.extractall()",
     "shutil.unpack_archive(x)"],
)  # fmt: skip
def test_unsafe_lines_are_found(line):
    assert unsafe_calls(line)


def test_safe_lines_are_not_found():
    assert not unsafe_calls(
        "jax.jit(f).lower(x).compile(); model.eval(); np.load(f, allow_pickle=False); re.compile('x')"
    )
