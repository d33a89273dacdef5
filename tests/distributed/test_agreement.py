"""Two real processes: agreement, a missing process, and the end of both when one fails."""

import json
import time

import pytest

from helpers.runs import ended, start_programs

pytestmark = pytest.mark.claim(
    "Parallelism",
    "several processes: batches, numbers, resume, failures (`pytest -m slow -s -k dead_or_frozen` prints the times)",
)

TALK = """
import json, sys, time
import numpy as np
from txjax import distributed
from txjax.errors import RunError, UserError
me = int(sys.argv[2])
distributed.start(sys.argv[1], 2, me)
def user_error():
    raise UserError("config.a", "b", 3)
def tell(**results):
    print(json.dumps(results), flush=True)
tell(index=distributed.process_index(), name=distributed.process_name(1), first=distributed.is_primary())
tell(short=distributed.on_primary("one", lambda: [me, "x"]))
tell(long=len(distributed.on_primary("two", lambda: "y" * 5000)))
tell(gathered=distributed.gather(np.array([1e300 * me, 2**53 + 1.0])).tolist())
try:
    distributed.on_primary("three", user_error)
except (UserError, RunError) as error:
    tell(error=str(error), code=distributed.exit_code(error))
if me == 1:
    time.sleep(4)
try:
    distributed.barrier("the end of the world", 2)
except RunError as error:
    tell(missing=str(error))
"""

FAILS = """
import sys, time
from txjax import distributed
from txjax.errors import RunError, UserError
from pathlib import Path
me = int(sys.argv[2])
distributed.start(sys.argv[1], 2, me)
distributed.watch_peers(Path(sys.argv[3]))
if me == int(sys.argv[4]):
    user_error = UserError("config.data", "fire brigade", "fire")
    distributed.report_failure(user_error if sys.argv[5] == "2" else OSError("gone"))
time.sleep(100)
"""


@pytest.mark.slow
def test_processes_agree_and_a_missing_one_is_named():
    found = ended(start_programs(2, TALK), 120)
    results = []
    for code, out, err in found:
        assert code == 0, err
        result = {}
        for line in out.splitlines():
            result |= json.loads(line) if line.startswith("{") else {}
        results.append(result)
    assert [f["index"] for f in results] == [0, 1] and [f["first"] for f in results] == [True, False]
    for result in results:
        assert result["short"] == [0, "x"] and result["long"] == 5000
        assert result["gathered"] == [[0.0, 2**53 + 1.0], [1e300, 2**53 + 1.0]]
        assert result["error"] == "config.a: expected b, got 3" and result["code"] == 2
        assert result["name"].startswith("process 1 (")
        assert result["missing"] == f"{result['name']} did not reach 'the end of the world' within 2 s"


def test_a_failure_ends_all_at_once_with_its_exit_code(tmp_path):
    for who, code, words in ((1, "2", "config.data: expected fire brigade"), (0, "1", "OSError: gone")):
        begun = time.monotonic()
        found = ended(start_programs(2, FAILS, str(tmp_path), str(who), code), 90)
        assert [rc for rc, _, _ in found] == [int(code)] * 2, found
        assert f"process {who} (" in found[1 - who][2] and words in found[1 - who][2], found
        assert time.monotonic() - begun < 60
