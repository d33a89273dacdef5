"""A record of the order in which a model's initialisation meets its parameters: that of the forward pass."""

import contextlib
from collections.abc import Iterator

from txjax.scoped import Scoped

_met = Scoped[list[list[str]] | None]("met_parameters", None)


@contextlib.contextmanager
def record_parameters() -> Iterator[list[list[str]]]:
    """For each call of a model inside, the paths of its parameters in order, some more than once.

    The lists are filled while the initialisation is traced.
    """
    met: list[list[str]] = [[]]
    with _met.within(met):
        yield met


def begin_call() -> None:
    """Begins a list for the parameters of another call of a model."""
    if (met := _met.get()) is not None:
        met.append([])


def record_parameter(module_path: tuple[str, ...], name: str) -> None:
    """Adds a parameter to the list of the current call."""
    if (met := _met.get()) is not None:
        met[-1].append("/".join((*module_path, name)))
