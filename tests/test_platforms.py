"""A JAX_PLATFORMS without devices on this machine is one line, from every command."""

import os
import subprocess
import sys

import pytest

from helpers.runs import environment

NONSENSE = "Unable to initialize backend 'nonsense': Backend 'nonsense' is not in the list of known backends: "


@pytest.mark.slow
@pytest.mark.parametrize(("platform", "reason"), [("cuda", "JAX finds no such device"), ("nonsense", NONSENSE)])
@pytest.mark.parametrize("flags", [("train",), ("train", "--dry_run")], ids=str)
def test_a_platform_without_devices(config, tmp_path, platform, reason, flags):
    if platform == "cuda" and os.path.exists("/dev/nvidia0"):
        pytest.skip("this machine has a GPU")
    command, *more = flags
    words = [sys.executable, "-m", "txjax", command, f"--config={config}", f"--workdir={tmp_path / 'run'}", *more]
    done = subprocess.run(words, env=environment() | {"JAX_PLATFORMS": platform}, capture_output=True, text=True)
    line = done.stderr.splitlines()[-1]
    assert done.returncode == 2 and "Traceback" not in done.stderr, done.stderr
    assert line.startswith("txjax: JAX_PLATFORMS: expected a platform whose devices this machine has")
    assert f"got '{platform}'; {reason}" in line and line.endswith("without JAX_PLATFORMS, JAX takes what there is")
    assert not (tmp_path / "run").exists()
