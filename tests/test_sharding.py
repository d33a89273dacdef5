"""Logical axes to mesh axes."""

import jax
import jax.numpy as jnp
import pytest
from jax.sharding import PartitionSpec as P

from txjax import sharding
from txjax.sharding import Mesh
from txjax.types import UserError

pytestmark = pytest.mark.mesh


def test_sizes_fill_up_to_the_devices():
    one = dict.fromkeys(sharding.AXES, 1)
    assert Mesh().sizes(8) == one | {"data": 8}
    assert Mesh(data=1, fsdp=4, tensor=2).sizes(8) == one | {"data": 1, "fsdp": 4, "tensor": 2}
    assert Mesh(data=2, fsdp=-1).sizes(8) == one | {"data": 2, "fsdp": 4}


@pytest.mark.parametrize("mesh", [Mesh(data=3), Mesh(fsdp=3), Mesh(data=-1, fsdp=-1), Mesh(data=0), Mesh(data=2)])
def test_invalid_mesh_sizes(mesh):
    with pytest.raises(UserError, match="config.mesh"):
        mesh.sizes(8)


def test_the_table_and_its_changes():
    mesh = Mesh(data=1, fsdp=4, tensor=2)
    assert mesh.partition(("embed", "mlp")) == P("fsdp", "tensor")
    assert mesh.partition(("layers", "embed", "heads", "head_size")) == P("pipeline", "fsdp", "tensor", None)
    assert mesh.partition(("batch", "length", "width")) == P(("data", "fsdp", "expert", "pipeline"), "sequence", None)
    assert Mesh(rules={"vocab": ()}).partition(("vocab", "embed")) == P(None, "fsdp")
    with pytest.raises(UserError, match="did you mean tensor"):
        Mesh(rules={"mlp": ("tensr",)}).table()


def test_two_axes_on_one_mesh_axis_collide():
    with pytest.raises(UserError, match=r"\['mlp', 'vocab'\] all on 'tensor'"):
        Mesh().partition(("mlp", "vocab"), "kernel")


def test_arrays_land_where_the_table_says():
    mesh = Mesh(data=1, fsdp=4, tensor=2)
    with sharding.use_mesh(mesh) as built:
        placed = sharding.shardings({"k": ("embed", "mlp")}, {"k": jnp.zeros((8, 6))}, mesh, built)
        x = jax.device_put(jnp.zeros((8, 6)), placed["k"])
        assert x.addressable_shards[0].data.shape == (2, 3)
        y = jax.jit(lambda x: sharding.constrain(x, "batch", "width"))(jnp.zeros((8, 4)))
        assert y.addressable_shards[0].data.shape == (2, 4)
        with pytest.raises(UserError, match="tensor = 2 to divide axis 'mlp' of k, got 5"):
            sharding.shardings({"k": ("embed", "mlp")}, {"k": jnp.zeros((8, 5))}, mesh, built)
    assert sharding.constrain(x, "batch", "width") is x


def test_inside_a_part_of_an_axis_no_rule_names_its_mesh_axes():
    mesh = Mesh(data=2, pipeline=4)
    assert sharding.num_shards("batch") == 1  # no mesh at all
    with sharding.use_mesh(mesh):
        assert sharding.num_shards("batch") == 8 and sharding.num_shards("layers") == 4
        with sharding.without_axis("layers"):
            assert sharding.num_shards("batch") == 2 and sharding.num_shards("layers") == 1
        with sharding.no_mesh():
            assert sharding.num_shards("batch") == 1

        def part(x: jax.Array) -> jax.Array:
            return sharding.constrain(2 * x, "batch", "width")

        y = jax.jit(sharding.vmap_shards(part, "layers"))(jnp.ones((4, 6, 3)))
        assert y.addressable_shards[0].data.shape == (1, 3, 3) and (y == 2).all()


def test_an_activation_that_does_not_divide_stays_whole_along_that_axis():
    with sharding.use_mesh(Mesh(data=2, sequence=4)):
        assert sharding.partition((4, 8), "batch", "length") == P(sharding.RULES["batch"], "sequence")
        assert sharding.partition((4, 9), "batch", "length") == P(sharding.RULES["batch"], None)
        y = jax.jit(lambda x: sharding.constrain(2 * x, "batch", "length"))(jnp.ones((4, 9)))
        assert y.addressable_shards[0].data.shape == (2, 9) and (y == 2).all()
    assert sharding.partition((4, 8), "batch", "length") == P()


def test_mapped_functions_see_their_own_part_and_pass_it_on():
    def around(x: jax.Array) -> jax.Array:
        return sharding.ring_permute(x, "length") + 10 * sharding.axis_index("length")

    assert sharding.shard_map(around, None, None) is around
    with sharding.use_mesh(Mesh(data=2, sequence=4)):
        spec = sharding.partition((2, 4), "batch", "length")
        y = jax.jit(sharding.shard_map(around, (spec,), spec))(jnp.arange(8).reshape(2, 4))
    assert y.tolist() == [[3, 10, 21, 32], [7, 14, 25, 36]]
