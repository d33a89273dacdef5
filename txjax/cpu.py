"""Settings of CPUs only: freed memory kept in the process, fast compilation, unrolled loops.

`docs/performance.md` gives the measurements behind each choice.
"""

import ctypes
import sys

MANY = 6_000_000  # random numbers, from which level 1 saves the second that it takes longer to compile
UNROLLED = 12  # layers: beyond, compiling takes longer than the steps save
UNSTACKED = 48  # layers in decoding: so many compile in 16 s, twelve in 5 s


def keep_freed_memory() -> bool:
    """Sets glibc to keep freed memory, and returns whether it does. Returned memory causes page faults at every step.

    Call it before JAX starts its threads.
    """
    if not sys.platform.startswith("linux"):
        return False
    try:
        mallopt = ctypes.CDLL("libc.so.6").mallopt
    except (OSError, AttributeError):
        return False
    trim_threshold = -1  # the names of malloc.h
    top_pad = -2
    mmap_max = -4
    arena_max = -8
    wanted = {mmap_max: 0, trim_threshold: 2**31 - 1, arena_max: 2, top_pad: 2**28}
    return all(mallopt(name, value) == 1 for name, value in wanted.items())


def options_once(numbers: int) -> dict[str, int]:
    """The compiler options of a program that runs once: on a CPU optimising it takes longer than running it.

    Args:
      numbers: random numbers that it draws; above `MANY`, the first level of optimisation is worth it.
    """
    return {"xla_backend_optimization_level": int(numbers > MANY)}


def unroll(depth: int) -> int:
    """The layers, of `depth`, in one turn of a loop: each turn copies what the backward pass needs on a CPU."""
    return depth if depth <= UNROLLED else 1


def unstacks(depth: int) -> bool:
    """Whether decoding takes the parameters of `depth` layers apart first; a loop copies them for every token."""
    return depth <= UNSTACKED
