"""Settings of the C library's memory allocator."""

from __future__ import annotations

from functools import cache
from typing import Final

WORTH_IT_BYTES: Final = 1 << 20
"""The settings are made before the first block of this size. So a server without large blocks never loads ctypes."""
LARGE_BYTES: Final = 4 << 20
"""Larger blocks go back to the system as soon as they are freed."""
FREE_AT_THE_END_BYTES: Final = 16 << 20
"""How much free memory at the end of the heap is kept for later blocks."""
_M_TRIM_THRESHOLD: Final = -1
_M_MMAP_THRESHOLD: Final = -3


def give_large_blocks_back() -> bool:
    """Let the C library take large blocks from the system one by one. False when it cannot.

    glibc does so by itself for blocks above 128 KiB. It raises that limit to the size of each such block that is freed,
    up to 32 MiB. Then a request of 20 MB leaves a hole of that size in the heap. Others (musl, macOS) have no such
    limit.
    """
    import ctypes  # late: it costs 5 ms and 0.3 MB, and a start does not need it

    set_option = getattr(ctypes.CDLL(None), "mallopt", None)
    if set_option is None:
        return False
    return bool(set_option(_M_MMAP_THRESHOLD, LARGE_BYTES)) and bool(
        set_option(_M_TRIM_THRESHOLD, FREE_AT_THE_END_BYTES)
    )


def expect(size: int) -> None:
    """Prepare for a block of `size` bytes, which the caller takes next from the C library."""
    if size >= WORTH_IT_BYTES:
        _tell_once()


@cache
def _tell_once() -> bool:
    return give_large_blocks_back()
