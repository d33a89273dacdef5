"""The guard of copies from devices, which the loop sets, is as strict in these tests as on a GPU."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

pytestmark = pytest.mark.claim("Tests", "a copy from a device in the loop that is not explicit fails, as on a GPU")


@pytest.mark.parametrize("read", [np.asarray, np.array, float, lambda x: x.copy_to_host_async(), str])
def test_an_implicit_copy_raises_inside_the_guard(read: Callable[[jax.Array], Any]) -> None:
    number = jax.jit(lambda x: 2 * x)(jnp.ones(()))
    with jax.transfer_guard("disallow"):
        with pytest.raises(jax.errors.JaxRuntimeError, match="Disallowed device-to-host transfer"):
            read(number)
        assert jax.device_get(number) == 2
