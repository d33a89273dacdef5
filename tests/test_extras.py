"""The install command in the error for a missing optional package."""

import importlib.util
import re
import tomllib

import pytest
from packaging.utils import canonicalize_name

from txjax.__main__ import main

import licences


def remove_package(monkeypatch: pytest.MonkeyPatch, package: str) -> None:
    """Lets a package seem not to be installed."""
    found = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util, "find_spec", lambda name, *more: None if name == package else found(name, *more)
    )


def test_a_missing_extra_is_named_as_it_is_typed(root, monkeypatch, capsys):
    remove_package(monkeypatch, "libtpu")
    assert main(["plan", f"--config={root / 'configs/text/gpt_tiny.py'}", "--topology=v5e:2x2"]) == 2
    assert capsys.readouterr().err.endswith("pip install 'txjax[plan]'\n")


def test_an_extra_that_two_data_sets_need_is_one_line(root, monkeypatch, capsys, tmp_path):
    remove_package(monkeypatch, "soundfile")
    words = [f"--config={root / 'configs/audio/ast_digits.py'}", f"--workdir={tmp_path / 'run'}"]
    assert main(["train", *words]) == 2
    expected = "txjax: config.data: expected the package soundfile to be installed; pip install 'txjax[audio]'\n"
    assert capsys.readouterr().err == expected


def test_licences_of_all_direct_requirements_are_listed():
    listed = set(re.findall(r"^\| ([\w.-]+) \|", licences.PAGE.read_text(), re.MULTILINE))
    for extra in (None, *licences.EXTRAS):
        assert {canonicalize_name(requirement.name) for requirement in licences.direct(extra)} <= listed, extra


def test_extras_that_are_named_exist(root):
    known = tomllib.loads((root / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    for path in [*root.glob("*.md"), *root.glob("docs/*.md"), *(root / "txjax").rglob("*.py")]:
        text = path.read_text()
        named = re.findall(r"pip install '?\.\[([\w-]+)\]", text) + re.findall(r"require\(.*extra=\"([\w-]+)\"", text)
        assert set(named) <= set(known), path
        if path.name != "errors.py":  # its hint is for an installed txjax, which pip takes
            assert not re.search(r"pip install '?txjax", text), f"{path}: there is no such package in any registry"
