"""The memory of the process: the C library's allocator, and Python's cyclic garbage collector.

No collection visits more than some 30,000 objects. When more objects survive a full collection, they are frozen: not
visited again, and freed when nothing refers to them. So cycles are found only among young or few objects. Muster makes
no other cycles (`tests/coordinator/test_no_cycles.py`).
"""

from __future__ import annotations

import gc
import sys
from functools import cache
from typing import Any, Final

WORTH_IT_BYTES: Final = 256 << 10
"""The settings are made before the first block of this size, in bytes. A server without such blocks loads no ctypes."""
LARGE_BYTES: Final = 4 << 20
"""Blocks of more bytes go back to the system as soon as they are freed."""
FREE_AT_THE_END_BYTES: Final = 16 << 20
"""How much free memory at the end of the heap is kept for later blocks.

glibc keeps 128 KiB by default. Then each batch of 1 MB gets new pages from the system, which costs a third of its CPU.
"""
_M_TRIM_THRESHOLD: Final = -1
_M_TOP_PAD: Final = -2
_M_MMAP_THRESHOLD: Final = -3


def give_large_blocks_back() -> bool:
    """Let the C library take large blocks from the system one by one, and keep some free memory. False when the system
    cannot. By itself, glibc raises its limit of 128 KiB to the size of each freed block. Then a request of 20 MB leaves
    a hole in the heap.
    """
    import ctypes  # imported here: ctypes costs 5 ms and 0.3 MB, and a start does not need it

    set_option = getattr(ctypes.CDLL(None), "mallopt", None)
    if set_option is None:
        return False
    options = (
        (_M_MMAP_THRESHOLD, LARGE_BYTES),
        (_M_TRIM_THRESHOLD, 2 * FREE_AT_THE_END_BYTES),
        (_M_TOP_PAD, FREE_AT_THE_END_BYTES),
    )
    return all(bool(set_option(option, value)) for option, value in options)


def expect_block(size: int) -> None:
    """Prepare for a block of `size` bytes, which the caller takes next from the C library."""
    if size >= WORTH_IT_BYTES:
        _give_back_once()


@cache
def _give_back_once() -> bool:
    return give_large_blocks_back()


EVERY_OBJECTS: Final = 4_000
"""How many objects are made between two collections. With Python's 700, collections took a tenth of 1,000 joins."""
MIDDLE_AFTER_RUNS: Final = 1
"""After more collections than this number, the next also visits the survivors: at most 12,000, in 1 ms."""
ALL_AFTER_RUNS: Final = 0
"""After more such visits than this number, all objects that are not frozen are visited, if a quarter is new."""
MAX_OBJECTS: Final = 8_000
"""When more objects survive such a visit, they are frozen. A visit of 150,000 takes 15 ms, of 1 GB 400 to 950 ms."""
_OLDEST_GENERATION: Final = 1 if sys.version_info[:2] == (3, 14) else 2
"""The generation of a full collection. The collector of Python 3.14.0 never visits all objects by itself."""


def limit_collections() -> None:
    """Begin to collect, without the present objects, which stay as long as the process."""
    gc.freeze()
    gc.collect()  # the next full collection comes when a quarter of all objects is new since this one
    gc.set_threshold(EVERY_OBJECTS, MIDDLE_AFTER_RUNS, ALL_AFTER_RUNS)
    if _after_collection not in gc.callbacks:
        gc.callbacks.append(_after_collection)
    gc.enable()


def _after_collection(phase: str, run: dict[str, Any]) -> None:
    """Freeze all objects, if they are many. After a collection no young cycle exists, so no cycle is frozen."""
    if phase == "stop" and run["generation"] >= _OLDEST_GENERATION:
        old_objects = sum([len(gc.get_objects(generation)) for generation in (1, 2)])
        if old_objects > MAX_OBJECTS:
            gc.freeze()
