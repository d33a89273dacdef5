"""What CPUs need and accelerators don't: memory that stays with the process, quick compiling, loops that don't copy.

`docs/performance.md` gives the measurements behind each choice.
"""

import ctypes
import sys

MANY = 6_000_000  # numbers to draw: as many as level 1 draws faster, by the second that it compiles longer
UNROLLED = 12  # layers: beyond, compiling takes longer than the steps save


def keep_freed_memory() -> bool:
    """Tells glibc to keep what a step frees, and whether it does. Giving it back means faulting it in at every step.

    Call it before JAX starts its threads.
    """
    if not sys.platform.startswith("linux"):
        return False
    try:
        mallopt = ctypes.CDLL("libc.so.6").mallopt
    except (OSError, AttributeError):
        return False
    trim_threshold, top_pad, mmap_max, arena_max = -1, -2, -4, -8  # the names of malloc.h
    wanted = {mmap_max: 0, trim_threshold: 2**31 - 1, arena_max: 2, top_pad: 2**28}
    return all(mallopt(name, value) == 1 for name, value in wanted.items())


def options_once(numbers: int) -> dict[str, int]:
    """The compiler options of a program that runs once: a CPU takes longer to optimise it than to run it.

    Args:
      numbers: that it draws; many are worth the first level of optimisation.
    """
    return {"xla_backend_optimization_level": int(numbers > MANY)}


def unroll(depth: int) -> int:
    """How many of `depth` layers one turn of a loop holds: a CPU copies what the backward pass needs at every turn."""
    return depth if depth <= UNROLLED else 1
