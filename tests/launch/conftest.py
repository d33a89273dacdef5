"""The cluster that the tests of the Slurm launcher share."""

import pytest

from cluster import Cluster, missing


@pytest.fixture(scope="session")
def cluster():
    """A real Slurm with two nodes."""
    if why := missing():
        pytest.skip(why)
    slurm = Cluster()
    yield slurm
    slurm.down()
