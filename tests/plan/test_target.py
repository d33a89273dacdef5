"""Devices that a plan can be for."""

import pytest

from txjax.plan.target import fake, slice_of
from txjax.scaling.chips import CHIPS, chip_named, peak
from txjax.types import UserError


@pytest.mark.parametrize("name", ["v5x:2x2", "v5p", "v5e:4", "v5e:axb", ""])
def test_what_is_no_slice_is_refused(name):
    with pytest.raises(UserError, match="--topology"):
        slice_of(name)


def test_near_misses_are_named():
    with pytest.raises(UserError, match="did you mean v5"):
        slice_of("v5:2x2")
    with pytest.raises(UserError, match="did you mean H100"):
        chip_named("H10")


def test_every_chip_has_all_its_numbers_and_a_source():
    for name, chip in CHIPS.items():
        assert 1e14 < chip.peak_flops < 1e16 and 2**33 < chip.memory < 2**39, name
        assert 1e11 < chip.interconnect < chip.memory_bandwidth < 1e13 and chip.source, name


def test_fake_devices_are_this_machines():
    target = fake(8, "H200")
    assert len(target.devices) == 8 and target.platform == "cpu" and target.chip is CHIPS["H200"]
    assert peak(target.devices[0]) is None
