"""libtpu installed on a machine without a TPU is not started."""

import os
import subprocess
import sys

import pytest

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
