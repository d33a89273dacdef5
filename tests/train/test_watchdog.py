"""A run that stands still ends, and tells where it stood; one that is slow for a reason goes on."""

import subprocess
import sys

CODE = """
import sys, time
from pathlib import Path
from txjax.train.watchdog import Watchdog
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


def test_where_it_stood_is_told(tmp_path):
    done = subprocess.run([sys.executable, "-c", CODE, str(tmp_path)], capture_output=True, text=True, timeout=90)
    assert done.returncode == 1 and done.stdout == "so far\n", done.stderr
    (line,) = done.stderr.strip().splitlines()
    assert "process 0 is stuck: waiting for data for" in line and "stuck_process_0.txt" in line
    told = (tmp_path / "logs" / "stuck_process_0.txt").read_text()
    assert "waiting for data" in told and "slow_reader" in told and "Thread" in told
