"""Which kernel computed each call of attention, and why, for messages and for plans."""

import contextlib
from collections.abc import Iterator
from typing import NamedTuple

import jax

from txjax.nn.kernels.mask import Mask
from txjax.scoped import Scoped


class Choice(NamedTuple):
    """The kernel that computes a call, and the reason.

    Attributes:
      kernel: "splash", "cudnn", "tokamax", "reference" or "ring".
      why: the reason, as text.
      query, key: shapes [B L H K] and [B S G K].
    """

    kernel: str
    why: str
    query: tuple[int, ...]
    key: tuple[int, ...]


_chosen = Scoped[list[Choice] | None]("chosen", None)


@contextlib.contextmanager
def choices() -> Iterator[list[Choice]]:
    """The choices for all calls traced inside, in order; the list is filled while tracing."""
    chosen: list[Choice] = []
    with _chosen.within(chosen):
        yield chosen


@contextlib.contextmanager
def record_choice(choice: Choice, mask: Mask) -> Iterator[None]:
    """Adds a call, whose operations are traced inside, to `choices`; the scope's name counts its pairs."""
    if (chosen := _chosen.get()) is not None:
        chosen.append(choice)
    length = choice.query[1]
    source = choice.key[1]
    with jax.named_scope(f"pairs_{mask.pairs(length, source)}_of_{length * source}"):
        yield
