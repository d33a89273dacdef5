"""Targets of a plan."""

import importlib.util
import math

import pytest

from txjax.chips import CHIPS, chip_named, chip_of, peak
from txjax.plan.gpus import GPUS
from txjax.plan.target import Target, fake, gpus, slice_of
from txjax.sharding import Mesh
from txjax.types import UserError


@pytest.mark.parametrize("name", ["v5x:2x2", "v5p", "v5e:4", "v5e:axb", ""])
def test_unknown_slices_raise(name):
    with pytest.raises(UserError, match="--topology"):
        slice_of(name)


@pytest.mark.parametrize("name", ["h1000:8", "h100", "h100:0", "h100:2x4x8", "h100:8x"])
def test_unknown_gpus_raise(name):
    with pytest.raises(UserError, match="--topology: expected FAMILY:GPUS or FAMILY:HOSTSxGPUS"):
        gpus(name)


@pytest.mark.skipif(importlib.util.find_spec("jax_cuda13_plugin") is None, reason="pip install '.[plan-gpu]'")
@pytest.mark.parametrize("family", GPUS)
def test_gpus_of_two_hosts(family):
    target = gpus(f"{family}:2x4")
    assert [device.process_index for device in target.devices] == [0] * 4 + [1] * 4
    assert target.platform == "gpu" and target.chip == chip_of(target.devices[0]) == CHIPS[GPUS[family].chip]
    assert target.limits


def test_memory_is_what_jax_takes(monkeypatch):
    gpu = Target("h100:1", (), "gpu", CHIPS["H100"])
    monkeypatch.delenv("XLA_PYTHON_CLIENT_MEM_FRACTION", raising=False)
    assert gpu.room == round(0.75 * CHIPS["H100"].memory)
    monkeypatch.setenv("XLA_PYTHON_CLIENT_MEM_FRACTION", ".9")
    assert gpu.room == round(0.9 * CHIPS["H100"].memory)
    assert Target("v5e:2x2", (), "tpu", CHIPS["TPU v5e"]).room == CHIPS["TPU v5e"].memory
    monkeypatch.setenv("XLA_PYTHON_CLIENT_MEM_FRACTION", "most")
    with pytest.raises(UserError, match="XLA_PYTHON_CLIENT_MEM_FRACTION: expected a share"):
        _ = gpu.room


def test_peaks_by_dtype():
    assert CHIPS["H100"].peak_of("bf16") == CHIPS["H100"].peak_flops == 989.5e12
    assert CHIPS["H100"].peak_of("f32") == 494.5e12 and CHIPS["H100"].peak_of("f8e4m3fn") == 1979e12
    assert CHIPS["TPU v5e"].peak_of("f32") == CHIPS["TPU v5e"].peak_flops


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
