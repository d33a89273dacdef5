"""A run on a terminal of 80 columns."""

import fcntl
import os
import pty
import re
import select
import struct
import subprocess
import sys
import termios
import time

import pytest

from helpers import runs


@pytest.mark.slow
def test_a_run_on_a_terminal(config, tmp_path):
    """Seconds while it compiles, the time left, an answer to Ctrl-C, a cursor; no line is too long."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
    # It takes the terminal for its own. (A `preexec_fn` would fork this process with all of JAX's threads.)
    start = (
        "import fcntl, os, sys, termios; fcntl.ioctl(0, termios.TIOCSCTTY, 0); os.execv(sys.executable, sys.argv[1:])"
    )
    words = [sys.executable, "-c", start]
    words += [sys.executable, "-m", "txjax", "train", f"--config={config}", f"--workdir={tmp_path / 'run'}"]
    words += ["--config.num_steps=100000", "--config.model.width=64", "--config.log_every_steps=2"]
    quick = {"XLA_FLAGS": runs.xla_flags(1), "TERM": "xterm", "JAX_ENABLE_COMPILATION_CACHE": "0"}
    variables = os.environ | quick | {"PYTHONPATH": os.pathsep.join(runs.PATHS)}
    process = subprocess.Popen(words, stdin=theirs, stdout=theirs, stderr=theirs, env=variables, start_new_session=True)
    os.close(theirs)
    seen, asked, deadline = "", False, time.monotonic() + 240
    while time.monotonic() < deadline:
        try:
            seen += os.read(ours, 65536).decode() if select.select([ours], [], [], 0.5)[0] else ""
        except OSError:  # the other end is closed
            break
        if "ETA" in seen and not asked:
            os.write(ours, b"\x03")
            asked = True
    os.close(ours)
    assert process.wait(60) == 75, seen
    drawn = re.split(r"\s*\x1b\[[?0-9]*[A-Za-z]|\n", seen.replace("\r", ""))
    line = re.compile(r"step +\d+/100000  ETA [^ ]*\d:\d\d:\d\d  \[[= ]{10}\]  loss")
    assert (
        any(map(line.match, drawn)) and max(len(x.removesuffix("^C")) for x in drawn if x.startswith("step")) <= 80
    ), seen
    assert re.search(r"step +0/100000  compiling the step \d+ s", seen), seen
    assert "a second Ctrl-C or signal stops at once" in seen and "preempted: saved at step" in seen, seen
    assert seen.rindex("\x1b[?25h") > seen.rindex("\x1b[?25l")
