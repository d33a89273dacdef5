"""Two processes save together: one save that fails in the background ends both."""

import pytest

from helpers.runs import ended, start_programs

pytestmark = pytest.mark.claim(
    "Parallelism",
    "several processes: batches, numbers, resume, failures (`pytest -m slow -s -k dead_or_frozen` prints the times)",
)

SAVES = """
import errno, sys, time
from pathlib import Path
import jax, numpy as np
from txjax import distributed
from txjax.checkpoint import Store
me, folder, faulty = int(sys.argv[2]), Path(sys.argv[3]), int(sys.argv[4])
distributed.start(sys.argv[1], 2, me)
distributed.watch_peers(folder / "logs")
sharding = jax.NamedSharding(jax.sharding.Mesh(np.array(jax.devices()), ("x",)), jax.P("x"))
array = jax.make_array_from_process_local_data(sharding, np.arange(4.0, dtype=np.float32) + 4 * me)
store = Store(folder)
store.save_parts(1, {"weights": {"a": array}}, {})
store.wait()
assert store.steps() == [1] and not store.faults(1)
whole = jax.ShapeDtypeStruct((8,), np.float32, sharding=jax.NamedSharding(sharding.mesh, jax.P()))
loaded = store.load(1, {"weights": {"a": whole}})["weights"]["a"]
print("loaded", np.asarray(loaded).tolist(), flush=True)
def full(*_):
    time.sleep(0.5)
    raise OSError(errno.ENOSPC, "No space left on device")
if me == faulty:
    guarded = Store._write_arrays
    Store._write_arrays = lambda self, step, act: guarded(self, step, full if act.__name__ == "result" else act)
try:
    store.save_parts(2, {"weights": {"a": array}}, {})
    while True:
        store.poll()
        time.sleep(0.1)
except Exception as error:
    distributed.report_failure(error)
"""


@pytest.mark.slow
@pytest.mark.parametrize("faulty", [0, 1])
def test_a_save_that_fails_in_one_process_ends_both(tmp_path, faulty):
    found = ended(start_programs(2, SAVES, str(tmp_path), str(faulty)), 90)
    assert [code for code, _, _ in found] == [2, 2], found
    for _, out, err in found:
        assert f"loaded {[float(i) for i in range(8)]}" in out
        assert "room to save step 2" in err and "step 1 is safe" in err and "Traceback" not in err, err
    assert not (tmp_path / "checkpoints" / "2" / "digests.json").exists()
