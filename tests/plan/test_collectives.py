"""Groups of devices that exchange, in the notations of XLA, and the bandwidth between them."""

import types

import pytest

from txjax.chips import CHIPS
from txjax.plan.collectives import groups_of
from txjax.plan.target import Target

ROWS = ((0, 1, 2, 3), (4, 5, 6, 7))
COLUMNS = ((0, 4), (1, 5), (2, 6), (3, 7))
NOTATIONS = {
    "replica_groups={{0,1,2,3},{4,5,6,7}}, channel_id=1": ROWS,
    "replica_groups=[2,4]<=[8], channel_id=1": ROWS,
    "replica_groups=[4,2]<=[2,4]T(1,0), channel_id=1": COLUMNS,
    "replica_groups=mesh['a'=2,'b'=4] {'b'}, channel_id=1": ROWS,
    "replica_groups=mesh['a'=2,'b'=4] {'a'}, channel_id=1": COLUMNS,
    "replica_groups=mesh['a'=4,'b'=2], device_ids=([4,2]<=[2,4]T(1,0)) {'b'}": COLUMNS,
    "replica_groups=mesh['a'=2,'b'=1,'c'=4] {'a','c'}": ((0, 1, 2, 3, 4, 5, 6, 7),),
    "source_target_pairs={{0,1},{1,0}}": ((0, 1), (1, 0)),
    "replica_groups={}, channel_id=1": (),
}


@pytest.mark.parametrize("text", NOTATIONS)
def test_groups_in_each_notation(text: str) -> None:
    assert groups_of(text) == NOTATIONS[text]


def test_a_ring_through_hosts_has_a_network_card_for_each_of_its_devices_there() -> None:
    """Data sheets: NVLink 450 GB/s, a card of 400 Gbit/s for each GPU."""
    devices = [types.SimpleNamespace(process_index=i // 8) for i in range(16)]
    target = Target("h100:2x8", devices, "gpu", CHIPS["H100"])

    def bandwidth(*groups: tuple[int, ...]) -> float:
        return target.bandwidth(groups, devices)

    assert bandwidth(tuple(range(8)), tuple(range(8, 16))) == 450e9  # each in one host
    assert bandwidth(tuple(range(16))) == 8 * 50e9
    assert bandwidth((0, 1, 8, 9)) == 2 * 50e9
    assert bandwidth((0, 1), (7, 8)) == 50e9  # the slowest group
