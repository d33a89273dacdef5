"""An imported folder gives a workdir its own files alone: no link leads out, nothing but files is read."""

import os
import shutil

import numpy as np
import pytest

from txjax.__main__ import main
from txjax.interop import huggingface
from txjax.io import kept_files
from txjax.models.text.decoder import gpt

from helpers.arrays import variables
from helpers.published_tokenizers import llama

pytestmark = pytest.mark.claim("Transfer", "imports follow no link out of the folder and take finite numbers alone")


@pytest.fixture(scope="module")
def published(tmp_path_factory):
    """A folder of a small GPT-2 with a tokenizer."""
    at = tmp_path_factory.mktemp("published") / "gpt2"
    model = gpt(vocab=400, width=8, depth=1, heads=2, max_length=16)
    huggingface.save(model, variables(model, np.zeros((1, 4), np.int32)), at)
    return llama(at)


@pytest.fixture
def folder(published, tmp_path):
    return shutil.copytree(published, tmp_path / "folder")


def imports(folder, workdir, capsys) -> str:
    """What a refused import prints; it makes no workdir."""
    assert main(["import", f"--from={folder}", f"--workdir={workdir}"]) == 2
    error = capsys.readouterr().err
    assert len(error.splitlines()) == 1 and not workdir.exists()
    return error


def test_a_link_out_of_the_folder_is_refused(folder, tmp_path, capsys):
    (tmp_path / "secret").write_text("{}")
    (folder / "special_tokens_map.json").symlink_to(tmp_path / "secret")
    error = imports(folder, tmp_path / "run", capsys)
    assert "expected links that stay inside the folder, got 'special_tokens_map.json, which leads to" in error


@pytest.mark.parametrize("kind", ["broken link", "link to a folder", "pipe", "large file"])
def test_what_is_no_file_of_the_folder_is_refused(folder, tmp_path, capsys, monkeypatch, kind):
    at = folder / "extra.json"
    if kind == "broken link":
        at.symlink_to("nowhere.json")
    elif kind == "link to a folder":
        (folder / "inner").mkdir()
        at.symlink_to("inner")
    elif kind == "pipe":
        os.mkfifo(at)
    else:
        monkeypatch.setattr(kept_files, "MOST", 100_000)
        at.write_text(" " * 100_001)
    error = imports(folder, tmp_path / "run", capsys)
    assert "extra.json" in error
    assert ("files of at most" if kind == "large file" else "files and folders alone") in error


def test_links_of_the_hubs_cache_are_files(published, tmp_path):
    blobs, snapshot = tmp_path / "models--a--b" / "blobs", tmp_path / "models--a--b" / "snapshots" / "0123"
    blobs.mkdir(parents=True)
    snapshot.mkdir(parents=True)
    for number, path in enumerate(sorted(published.iterdir())):
        shutil.copyfile(path, blobs / str(number))
        (snapshot / path.name).symlink_to(f"../../blobs/{number}")
    assert main(["import", f"--from={snapshot}", f"--workdir={tmp_path / 'run'}"]) == 0
    copy = tmp_path / "run" / "huggingface" / "tokenizer.json"
    assert not copy.is_symlink() and copy.read_bytes() == (published / "tokenizer.json").read_bytes()


@pytest.mark.parametrize("number", [np.nan, np.inf])
def test_weights_that_are_not_finite_are_refused_by_name(folder, tmp_path, capsys, number):
    from safetensors.numpy import load_file, save_file

    tensors = load_file(folder / "model.safetensors")
    name = sorted(tensors)[3]
    tensors[name] = tensors[name].copy()
    tensors[name].flat[0] = number
    save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})
    error = imports(folder, tmp_path / "run", capsys)
    assert f"expected finite numbers in {name}, got 'NaN or infinity'" in error


def test_exported_weights_have_the_mode_of_the_umask(published, tmp_path):
    assert main(["import", f"--from={published}", f"--workdir={tmp_path / 'run'}"]) == 0
    before = os.umask(0o022)
    try:
        assert main(["export", f"--workdir={tmp_path / 'run'}", f"--to={tmp_path / 'x'}"]) == 0
    finally:
        os.umask(before)
    assert {path.stat().st_mode & 0o777 for path in (tmp_path / "x").iterdir()} == {0o644}
