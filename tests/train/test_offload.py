"""Moments that wait in the hosts' memory change nothing but where they are."""

import jax
import numpy as np
import pytest

from txjax import backend, sharding
from txjax.checkpoint import Store
from txjax.experiment import Experiment
from txjax.models.text.decoder.decoder import Decoder
from txjax.nn import Stack
from txjax.sharding import Mesh
from txjax.train.run_eval import shard_batch
from txjax.train.state.state import build_layout
from txjax.train.step import jit_step
from txjax.types import TrainState, UserError, flat_paths

from helpers import tiny_experiments

pytestmark = pytest.mark.mesh


def experiment(moments: str = "device", **model) -> Experiment:
    mesh = Mesh(data=1, fsdp=2, tensor=2, moments=moments)
    return tiny_experiments.decoder(model=Decoder(vocab=256, width=32, depth=1, heads=2, **model), mesh=mesh)


def batch(step: int) -> dict[str, np.ndarray]:
    tokens = np.random.default_rng(step).integers(0, 256, (8, 17)).astype(np.int32)
    weights = np.ones((8, 16), np.float32)
    return {"id": np.arange(8, dtype=np.int32), "tokens": tokens[:, :-1], "targets": tokens[:, 1:], "weights": weights}


class Run:
    """A run on four devices, compiled once."""

    def __init__(self, exp: Experiment):
        self.mesh = exp.mesh
        with sharding.use_mesh(self.mesh, jax.devices()[:4]) as built:
            self.layout = build_layout(exp, built)
            self.step = jit_step(exp, self.layout)

    def go(self, steps: range, store: Store | None = None) -> TrainState:
        """Trains, from fresh parameters or a checkpoint."""
        with sharding.use_mesh(self.mesh, jax.devices()[:4]):
            state = self.layout.create(0) if store is None else store.restore(self.layout.abstract)[0]
            for i in steps:
                state, _ = self.step(state, shard_batch(batch(i), self.layout.batch))
            return state


def kinds(state: TrainState) -> dict[str, str]:
    return {path: x.sharding.memory_kind for path, x in flat_paths(state.opt_state).items()}


def same(a: TrainState, b: TrainState) -> None:
    others = flat_paths(b)
    for path, x in flat_paths(a).items():
        np.testing.assert_array_equal(x, others[path], err_msg=path)


def test_the_same_run_bit_for_bit(tmp_path):
    here, there = Run(experiment("device")), Run(experiment("host"))
    whole, first = here.go(range(4)), there.go(range(2))
    where = kinds(first)
    assert {kind for path, kind in where.items() if path.endswith(("kernel", "bias", "embedding"))} == {"pinned_host"}
    assert set(kinds(whole).values()) == {"device"}

    store = Store(tmp_path)
    store.save(2, first, {})
    store.wait()
    for run, wanted in ((here, kinds(whole)), (there, where)):  # a checkpoint doesn't know where its moments were
        rest = run.go(range(2, 4), store)
        same(whole, rest)
        assert kinds(rest) == wanted


def test_devices_without_host_memory_are_refused(monkeypatch):
    monkeypatch.setattr(backend, "_HOST", "memory_of_another_year")
    for exp, field in (
        (experiment("host"), "config.mesh.moments"),
        (experiment(stack=Stack(remat="offload")), "config.model.stack.remat"),
    ):
        with (
            sharding.use_mesh(exp.mesh, jax.devices()[:4]) as built,
            pytest.raises(
                UserError, match=rf"{field}: expected devices that reach memory .*, got 'device, pinned_host"
            ),
        ):
            build_layout(exp, built)


@pytest.mark.slow
def test_a_tpu_has_the_moments_in_its_hosts_memory(monkeypatch):
    pytest.importorskip("libtpu", reason="the `plan` extra")
    monkeypatch.setenv("TPU_SKIP_MDS_QUERY", "1")
    monkeypatch.setenv("ALLOW_MULTIPLE_LIBTPU_LOAD", "1")
    from jax.experimental import topologies

    devices = topologies.get_topology_desc(platform="tpu", topology_name="v5e:2x2").devices
    memory = {}
    for moments in ("device", "host"):
        exp = experiment(moments)
        with backend.target_platform("tpu"), sharding.use_mesh(exp.mesh, devices) as built:
            layout = build_layout(exp, built)
            spec = {name: jax.ShapeDtypeStruct(x.shape, x.dtype, sharding=layout.batch) for name, x in batch(0).items()}
            memory[moments] = jit_step(exp, layout).lower(layout.abstract, spec).compile().memory_analysis()
    here, there = memory["device"], memory["host"]
    assert here.host_argument_size_in_bytes == 0 < there.host_argument_size_in_bytes
    gone = here.argument_size_in_bytes - there.argument_size_in_bytes
    assert 0.8 < there.host_argument_size_in_bytes / gone < 1.25  # tiles are padded otherwise there
    assert there.host_alias_size_in_bytes == there.host_argument_size_in_bytes  # written where they were read
