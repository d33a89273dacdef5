"""Settings of CPUs only: freed memory kept in the process in large pages, fast compilation, unrolled loops.

`docs/performance.md` gives the measurements behind each choice.
"""

import ctypes
import functools
import os
import sys

MANY = 6_000_000  # random numbers, from which level 1 saves the second that it takes longer to compile
# Up to so many layers are one turn of a loop, since each turn copies what the backward pass needs; beyond, compiling
# takes longer than the steps save.
UNROLLED = 12
# Up to so many layers are taken apart before decoding, since a loop copies their parameters for every token; so many
# compile in 16 s, twelve in 5 s.
UNSTACKED = 48


@functools.cache
def keep_freed_memory() -> str:
    """Sets glibc to keep freed memory, in large pages. Call it before any library starts threads.

    Returned memory causes page faults at every step, and small pages misses of the address cache at every array. The
    pages are asked for where the kernel gives them on request or always
    (`/sys/kernel/mm/transparent_hugepage/enabled`), for half the machine's memory, of which none is used before it is
    written to. Only the main arena keeps large arrays: once threads have arenas of their own, new threads share these.

    Returns:
      What was set, and how to disable it, for the log; "" if nothing was.
    """
    if not sys.platform.startswith("linux") or os.environ.get("TXJAX_KEEP_MEMORY") == "0":
        return ""
    try:
        libc = ctypes.CDLL("libc.so.6")
        set_option = libc.mallopt
        madvise = libc.madvise
        malloc = libc.malloc
        free = libc.free
        arenas = _count_arenas(libc)
    except (OSError, AttributeError):
        return ""
    trim_threshold = -1  # the names of malloc.h
    top_pad = -2
    mmap_max = -4
    arena_max = -8
    huge_page = 14  # MADV_HUGEPAGE of sys/mman.h
    # One arena: only that of the main thread grows by brk, in one piece.
    wanted = {mmap_max: 0, trim_threshold: -1, arena_max: 1, top_pad: 2**28}
    if not all(set_option(name, value) == 1 for name, value in wanted.items()):
        return ""
    malloc.restype = ctypes.c_void_p
    malloc.argtypes = [ctypes.c_size_t]
    madvise.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
    free.argtypes = [ctypes.c_void_p]
    page = os.sysconf("SC_PAGE_SIZE")
    size = os.sysconf("SC_PHYS_PAGES") // 2 * page
    if block := malloc(size):
        before = -block % page
        madvise(block + before, (size - before) // page * page, huge_page)
        malloc(2 * page)  # at the heap's end, so that `malloc_trim`, which libraries call, cannot give back the block
        free(block)
    if arenas > 1:
        return "freed memory is returned at each step, as threads were there before (start with MALLOC_ARENA_MAX=1)"
    return "freed memory is kept for the next step, in large pages (off: TXJAX_KEEP_MEMORY=0)"


def _count_arenas(libc: ctypes.CDLL) -> int:
    """The arenas of glibc's malloc in this process."""
    libc.open_memstream.restype = ctypes.c_void_p
    libc.malloc_info.argtypes = [ctypes.c_int, ctypes.c_void_p]
    libc.fclose.argtypes = [ctypes.c_void_p]
    libc.free.argtypes = [ctypes.c_void_p]
    text = ctypes.c_void_p()
    size = ctypes.c_size_t()
    stream = libc.open_memstream(ctypes.byref(text), ctypes.byref(size))
    libc.malloc_info(0, stream)
    libc.fclose(stream)
    count = ctypes.string_at(text, size.value).count(b"<heap nr=")
    libc.free(text)
    return count


def cores() -> int:
    """The cores that this process may use. XLA splits the work of a CPU by them, and so the order of its sums."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def options_once(numbers: int) -> dict[str, int]:
    """The compiler options of a program that runs once: on a CPU optimising it takes longer than running it.

    Args:
      numbers: random numbers that it draws; above `MANY`, the first level of optimisation is worth it.
    """
    return {"xla_backend_optimization_level": int(numbers > MANY)}
