"""An array or a program that the memory has no room for is one line, in commands and from Python."""

import jax
import pytest

import txjax
from txjax.memory_errors import memory_error

from helpers.runs import train_here

DEVICES = "the memory of the devices: expected room for "
# The messages of XLA on CPUs, GPUs (two versions) and TPUs.
MESSAGES = {
    "RESOURCE_EXHAUSTED: Out of memory allocating 147456000000 bytes.": "147.5 GB more",
    "RESOURCE_EXHAUSTED: Out of memory while trying to allocate 34359738368 bytes.": "34.4 GB more",
    "RESOURCE_EXHAUSTED: Out of memory while trying to allocate 4.50GiB.": "4.8 GB more",
    "RESOURCE_EXHAUSTED: Error allocating device buffer: Attempting to allocate 8.00G. There are 6.95G free.": "8.6 GB",
    "RESOURCE_EXHAUSTED: Ran out of memory in memory space hbm. Used 24.51G of 15.48G hbm.": "the run, got 'RESOURCE_",
}


def test_a_model_that_no_memory_holds_is_one_line(config, tmp_path):
    flags = ("--config.model.width=1536", "--config.model.mlp.ratio=1e6")
    code, _, err = train_here(config, tmp_path / "run", *flags)
    assert code == 2 and err.splitlines()[-1].startswith(f"txjax: {DEVICES}"), err
    assert "docs/memory.md" in err and "Traceback" not in err


def test_from_python_it_is_an_error_of_the_user(config, tmp_path):
    experiment = txjax.load_config(str(config), {"model.width": 1536, "model.mlp.ratio": 1e6})
    with pytest.raises(txjax.types.UserError, match=f"^{DEVICES}"):
        txjax.fit(experiment, tmp_path / "run")


@pytest.mark.parametrize("message", MESSAGES)
def test_messages_of_all_devices_are_known(message):
    assert str(memory_error(jax.errors.JaxRuntimeError(message))).startswith(f"{DEVICES}{MESSAGES[message]}")


def test_the_memory_of_the_machine_and_other_errors():
    error = memory_error(MemoryError("Unable to allocate 10.0 GiB for an array with shape (1342177280,)"))
    assert str(error).startswith("the memory of this machine: expected room for 10.7 GB more;")
    assert memory_error(jax.errors.JaxRuntimeError("INTERNAL: no kernel")) is None
    assert memory_error(ValueError("RESOURCE_EXHAUSTED: a full disk")) is None
