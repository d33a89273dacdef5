"""Targets of a plan."""

import importlib.util
import math

import pytest

from txjax.chips import CHIPS, chip_named, chip_of, peak
from txjax.plan.target import fake, slice_of
from txjax.sharding import Mesh
from txjax.types import UserError


@pytest.mark.parametrize("name", ["v5x:2x2", "v5p", "v5e:4", "v5e:axb", ""])
def test_unknown_slices_raise(name):
    with pytest.raises(UserError, match="--topology"):
        slice_of(name)


def test_near_misses_are_named():
    with pytest.raises(UserError, match="did you mean v5"):
        slice_of("v5:2x2")
    with pytest.raises(UserError, match="did you mean H100"):
        chip_named("H10")


@pytest.mark.slow
@pytest.mark.skipif(importlib.util.find_spec("libtpu") is None, reason="pip install '.[plan]'")
@pytest.mark.parametrize("name", ["v4:2x2x4", "v5e:4x8", "v5p:4x4x4", "v6e:16x16"])
def test_a_slice_takes_any_mesh(name):
    """Whether or not the axes are its torus's."""
    target = slice_of(name)
    shape = [int(part) for part in name.partition(":")[2].split("x")]
    assert len(target.devices) == math.prod(shape) and target.platform == "tpu"
    assert target.chip == chip_of(target.devices[0])
    for fsdp in (2, 8, math.prod(shape)):
        built = Mesh(data=-1, fsdp=fsdp).build(target.devices)
        assert built.shape["fsdp"] == fsdp and len({device.id for device in built.devices.flat}) == math.prod(shape)


def test_every_chip_has_all_fields_and_a_source():
    for name, chip in CHIPS.items():
        assert 1e14 < chip.peak_flops < 1e16 and 2**33 < chip.memory < 2**39, name
        assert 1e11 < chip.interconnect < chip.memory_bandwidth < 1e13 and chip.source, name


@pytest.mark.mesh
def test_fake_devices():
    target = fake(8, "H200")
    assert len(target.devices) == 8 and target.platform == "cpu" and target.chip is CHIPS["H200"]
    assert peak(target.devices[0]) is None
