"""One line where memory does not suffice. Nothing here imports JAX, so commands can show their help without it."""

import contextlib
import re
from collections.abc import Iterator

from txjax.errors import UserError

_HINT = "docs/memory.md lists what takes memory and the fields that need less of it; `txjax plan` predicts it"
_XLA_ERRORS = {"JaxRuntimeError", "XlaRuntimeError"}
_BITS = {"bytes": 0, "K": 10, "M": 20, "G": 30, "T": 40}


def memory_error(error: BaseException) -> UserError | None:
    """The one-line error of an array or program that the memory has no room for; None for any other error."""
    text = str(error)
    is_on_device = type(error).__name__ in _XLA_ERRORS and re.search("RESOURCE_EXHAUSTED|[Rr]an out of memory", text)
    if not (is_on_device or isinstance(error, MemoryError)):
        return None
    place = "the memory of the devices" if is_on_device else "the memory of this machine"
    size = re.search(r"allocat\w+ ([\d.]+) ?(bytes|[KMGT])", text)
    if size is None:
        return UserError(place, "room for the run", text.partition("\n")[0][:200], hint=_HINT)
    gigabytes = float(size[1]) * 2 ** _BITS[size[2]] / 1e9
    return UserError(place, f"room for {gigabytes:,.1f} GB more", hint=_HINT)


@contextlib.contextmanager
def name_memory_errors() -> Iterator[None]:
    """Raises UserError for an array or program inside that the memory has no room for."""
    try:
        yield
    except Exception as error:
        if user_error := memory_error(error):
            raise user_error from error
        raise
