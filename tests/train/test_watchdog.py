"""A run that is stuck ends, and reports where it was stuck; one that is slow for a reason continues."""

import os
import signal
import subprocess
import sys
import time

import pytest

CODE = """
import sys, time
from pathlib import Path
from txjax.train.run.watchdog import Watchdog
def slow_reader():
    time.sleep(30)
folder = Path(sys.argv[1])
(folder / "logs").mkdir()
with Watchdog(folder, 0.5) as watchdog:
    for _ in range(4):
        watchdog.beat("stepping")
        time.sleep(0.3)
    with watchdog.patient("saving"):
        time.sleep(1.5)
    print("so far", flush=True)
    watchdog.beat("waiting for data")
    slow_reader()
"""


def test_a_stuck_run_reports_where(tmp_path):
    done = subprocess.run([sys.executable, "-c", CODE, str(tmp_path)], capture_output=True, text=True, timeout=90)
    assert done.returncode == 1 and done.stdout == "so far\n", done.stderr
    (line,) = done.stderr.strip().splitlines()
    assert "process 0 is stuck: waiting for data for" in line and "stuck_process_0.txt" in line
    report = (tmp_path / "logs" / "stuck_process_0.txt").read_text()
    assert "waiting for data" in report and "slow_reader" in report and "Thread" in report


@pytest.mark.slow
def test_a_process_that_was_stopped_is_not_stuck(tmp_path):
    """SIGSTOP for longer than a step may take, then SIGCONT: only time that it was awake counts."""
    code = CODE.replace('watchdog.beat("waiting for data")\n    slow_reader()', 'time.sleep(0.2)\nprint("done")')
    process = subprocess.Popen([sys.executable, "-c", code, str(tmp_path)], stdout=subprocess.PIPE, text=True)
    assert process.stdout.readline() == "so far\n"
    os.kill(process.pid, signal.SIGSTOP)
    time.sleep(1)
    os.kill(process.pid, signal.SIGCONT)
    out, _ = process.communicate(timeout=60)
    assert (process.returncode, out) == (0, "done\n")
