"""Collectives and memory traffic parsed from compiled programs match the source programs."""

import jax
import jax.numpy as jnp
import pytest
from jax.sharding import NamedSharding, PartitionSpec

from txjax.plan.collectives import collectives
from txjax.plan.hlo import Program
from txjax.plan.traffic import memory_traffic
from txjax.sharding import Mesh

pytestmark = pytest.mark.mesh

N, ROUNDS, M, K = 8, 5, 64, 128
SIZE = 4 * M * K  # bytes


def compiled(function, *specs) -> Program:
    mesh = Mesh(data=N).build()
    inputs = [jax.ShapeDtypeStruct((M, K), jnp.float32, sharding=NamedSharding(mesh, spec)) for spec in specs]
    return Program(jax.jit(function).lower(*inputs).compile().as_text())


def over(axis_spec):
    return NamedSharding(Mesh(data=N).build(), axis_spec)


SPLIT, WHOLE = PartitionSpec("data"), PartitionSpec()
TURN = [(i, (i + 1) % N) for i in range(N)]


def mapped(function, out=SPLIT):
    return jax.shard_map(function, mesh=Mesh(data=N).build(), in_specs=SPLIT, out_specs=out, check_vma=False)


# The collective, the sharding of its result, and the bytes that each device sends.
EXCHANGES = {
    "all-gather": (lambda x: jax.lax.all_gather(x, "data", tiled=True), WHOLE, SIZE * (N - 1) // N),
    "all-reduce": (lambda x: jax.lax.psum(x, "data"), SPLIT, 2 * SIZE // N * (N - 1) // N),
    "reduce-scatter": (lambda x: jax.lax.psum_scatter(x, "data", tiled=True), SPLIT, SIZE // N * (N - 1) // N),
    "all-to-all": (lambda x: jax.lax.all_to_all(x, "data", 0, 1, tiled=True), SPLIT, SIZE // N * (N - 1) // N),
    "collective-permute": (lambda x: jax.lax.ppermute(x, "data", TURN), SPLIT, SIZE // N),
}


@pytest.mark.parametrize("kind", EXCHANGES)
def test_bytes_of_each_collective(kind):
    function, out, sent = EXCHANGES[kind]
    found = collectives(compiled(mapped(function, out), SPLIT))
    assert [(c.kind, c.sent, c.times) for c in found] == [(kind, sent, 1)]
    assert found[0].devices in (N, 2)


def test_a_collective_in_a_loop_counts_every_iteration():
    step = mapped(EXCHANGES["collective-permute"][0])
    program = compiled(lambda x: jax.lax.scan(lambda c, _: (step(c) * 2, None), x, None, length=ROUNDS)[0], SPLIT)
    assert sum(c.sent * c.times for c in collectives(program)) == ROUNDS * SIZE // N
    nested = compiled(
        lambda x: jax.lax.fori_loop(0, 3, lambda _, x: jax.lax.fori_loop(0, ROUNDS, lambda _, c: step(c) * 2, x), x),
        SPLIT,
    )
    assert sum(c.sent * c.times for c in collectives(nested)) == 3 * ROUNDS * SIZE // N


def test_one_device_sends_nothing():
    assert not collectives(compiled(lambda x: x @ x.T, WHOLE))


def test_memory_traffic_of_reads_and_writes():
    assert memory_traffic(compiled(lambda x: jnp.sin(x) + 1, WHOLE)) == 2 * SIZE
    assert memory_traffic(compiled(lambda x: jnp.sin(x) + 1, SPLIT)) == 2 * SIZE // N


def test_slices_of_an_array_in_a_loop_are_read_once():
    def rows(x):
        return jax.lax.scan(lambda total, row: (total + jnp.sin(row), None), jnp.zeros(K), x)[0]

    traffic = memory_traffic(compiled(rows, WHOLE))
    assert SIZE <= traffic <= 6 * SIZE  # the sum goes to and fro with each row; the whole array would be M times more
