"""Requests that a client repeats with a few other numbers. They are recognized by their bytes, without decoding.

A `FrameTemplate` is made from one frame and knows where numbers may vary. Every other byte but the correlation id must
be equal. A frame that matches would decode to the same message with those numbers. Pure; knows no API.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from functools import lru_cache
from struct import Struct
from typing import Any, Final

Run = tuple[int, str]
"""Where numbers that may vary begin in the frame, and their types: `struct` codes, big-endian."""

_ID_AT: Final = 4
"""The correlation id stands behind API key and version."""
_ID: Final = {1: "4s", 2: "2s2s"}
"""The correlation id varies too. It has as many pieces as a run has numbers."""
_VARIED: Final = re.compile(b"\xff+")


class FrameTemplate:
    """One frame. `size` is its length in bytes, without the four bytes of the size field."""

    __slots__ = ("_constants", "_every", "_unpack", "size")

    def __init__(self, frame: bytes, runs: Sequence[Run]) -> None:
        """`runs`: one or more behind the header, in order, at least a byte apart. Raises ValueError unless all have the
        same one or two codes.
        """
        kinds = {codes for _, codes in runs}
        codes = kinds.pop() if len(kinds) == 1 else ""
        if len(codes) not in _ID:
            raise ValueError("the runs are not of one kind")
        self.size = len(frame)
        layout, at = ">", 0
        for where, what in ((_ID_AT, _ID[len(codes)]), *runs):
            layout += f"{where - at}s{what}"
            at = where + Struct(f">{what}").size
        layout += f"{len(frame) - at}s"
        self._unpack = unpack = _unpacker(layout)
        self._every = len(codes) + 1
        self._constants = b"".join(unpack(frame, 0)[:: self._every])

    def match(self, data: bytes, start: int) -> tuple[Any, ...] | None:
        """Compare a frame of `size` bytes in data[start:]. Returns its parts, or None for another request. Constant
        bytes and the numbers of a run alternate; the first run is the correlation id.
        """
        parts = self._unpack(data, start)
        return parts if b"".join(parts[:: self._every]) == self._constants else None


@lru_cache(maxsize=1_000)
def _unpacker(layout: str) -> Callable[[bytes, int], tuple[Any, ...]]:
    """Templates with the same layout share one struct."""
    return Struct(layout).unpack_from


def runs_between(low: bytes, high: bytes, codes: dict[int, str]) -> list[Run]:
    """Where two encodings of a message differ. All varying numbers are 0 in one, and -1 in the other.

    `codes`: the struct codes of a run, by its length. Raises ValueError for a run, or an encoding, of another length.
    """
    if len(low) != len(high):
        raise ValueError("the encodings are not of one length")
    difference = int.from_bytes(low, "big") ^ int.from_bytes(high, "big")
    runs: list[Run] = []
    for found in _VARIED.finditer(difference.to_bytes(len(low), "big")):
        code = codes.get(found.end() - found.start())
        if code is None:
            raise ValueError(f"{found.end() - found.start()} bytes vary at {found.start()}")
        runs.append((found.start(), code))
    return runs
