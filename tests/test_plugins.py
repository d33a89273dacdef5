"""JAX's plugins for TPUs and GPUs, installed on a machine without such devices, are not started and say nothing."""

import importlib.util
import os
import subprocess
import sys

import pytest

from txjax import plugins

LIBTPU = """
import sys

def get_library_path():
    print("libtpu was asked for", file=sys.stderr)
    return "/nowhere/libtpu.so"
"""
CODE = """
import sys
from txjax.__main__ import main
main(["diff"])  # which ends at once
print("now", file=sys.stderr)
import jax
print(jax.devices())
"""


@pytest.mark.parametrize(("mark", "asked"), [({}, False), ({"TPU_WORKER_ID": "0"}, True)])
def test_libtpu_is_not_started_without_signs_of_a_tpu(root, tmp_path, mark, asked):
    (tmp_path / "libtpu.py").write_text(LIBTPU)
    names = {name: value for name, value in os.environ.items() if not name.startswith(("TPU_", "JAX_PLATFORMS"))}
    environment = names | {"PYTHONPATH": os.pathsep.join([str(root), str(tmp_path)]), "TPU_SKIP_MDS_QUERY": "1"} | mark
    done = subprocess.run([sys.executable, "-c", CODE], env=environment, capture_output=True, text=True)
    assert done.returncode == 0 and "CpuDevice" in done.stdout, done.stderr
    assert ("libtpu was asked for" in done.stderr.partition("now\n")[2]) == asked


@pytest.mark.parametrize(("files", "checked"), [((), False), (("/dev/nvidia0",), True)])
def test_the_cuda_plugin_is_checked_only_with_signs_of_a_gpu(monkeypatch, files, checked):
    monkeypatch.delenv("JAX_SKIP_CUDA_CONSTRAINTS_CHECK", raising=False)
    monkeypatch.setattr(plugins.glob, "glob", lambda pattern: [file for file in files if file[:11] in pattern])
    monkeypatch.setattr(plugins, "register_backend_factory", lambda *_, **__: None)
    plugins.leave_out()
    assert ("JAX_SKIP_CUDA_CONSTRAINTS_CHECK" not in os.environ) == checked


@pytest.mark.skipif(importlib.util.find_spec("jax_cuda13_plugin") is None, reason="pip install '.[plan-gpu]'")
def test_an_installed_cuda_plugin_is_quiet_without_a_gpu(root):
    names = {name: value for name, value in os.environ.items() if not name.startswith("JAX_")}
    environment = names | {"PYTHONPATH": str(root)}
    done = subprocess.run([sys.executable, "-c", CODE], env=environment, capture_output=True, text=True)
    assert "CpuDevice" in done.stdout and done.stderr.partition("now\n")[2] == "", done.stderr
