"""The largest batch and the fewest microbatches are the last that fit: what is next to them does not."""

import dataclasses

import pytest

from txjax.experiment import Experiment, with_default_eval_data
from txjax.overrides import override_all
from txjax.plan.batch_limits import batch_limits
from txjax.plan.layouts import plan_of
from txjax.plan.target import Target, fake

from helpers import tiny_experiments

BATCH = 8


def load(more: list[str]) -> Experiment:
    return with_default_eval_data(override_all(tiny_experiments.decoder(batch_size=BATCH, microbatches=2), more, {}))


def target_with(room: int) -> Target:
    """One fake device with this much memory."""
    target = fake(1, "H100")
    return dataclasses.replace(target, chip=dataclasses.replace(target.chip, memory=room, allocated=1.0))


def bytes_of(*flags: str) -> int:
    return plan_of(load([*flags]), target_with(2**40)).total_bytes


def test_a_larger_batch_does_not_fit() -> None:
    room = bytes_of("--config.batch_size=48")
    assert bytes_of("--config.batch_size=64") > room
    largest, fewest = batch_limits(load, target_with(room))
    assert (largest.aim, largest.flags) == ("largest batch", ("--config.batch_size=48",))
    assert largest.plan.fits and largest.plan.total_bytes == room
    assert (fewest.aim, fewest.flags) == ("fewest microbatches", ("--config.microbatches=1",))


@pytest.mark.slow
def test_fewer_microbatches_do_not_fit() -> None:
    room = bytes_of("--config.microbatches=4")
    assert bytes_of("--config.microbatches=2") > room
    (_, fewest) = batch_limits(load, target_with(room))
    assert fewest.flags == ("--config.microbatches=4",)


@pytest.mark.slow
def test_without_room_for_the_state_there_is_neither() -> None:
    assert batch_limits(load, target_with(1000)) == []
