"""Requests that a client sends again and again, with a few numbers changed: told from the bytes, without decoding them.

A `FrameTemplate` is made from one frame and knows where numbers may vary; every other byte but the correlation id must
be the same. What matches would decode to the same message, with those numbers in it. Pure; knows no API.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from functools import lru_cache
from struct import Struct
from typing import Any, Final

Run = tuple[int, str]
"""Where in the frame numbers begin that may vary, and what they are: codes of `struct`, big-endian."""

_ID_AT: Final = 4
"""The correlation id stands behind API key and version."""
_ID: Final = {1: "4s", 2: "2s2s"}
"""It varies too: in as many pieces as the numbers of a run."""
_VARIED: Final = re.compile(b"\xff+")


class FrameTemplate:
    """One frame; `size` is its length in bytes (without the four that tell it)."""

    __slots__ = ("_constants", "_every", "_unpack", "size")

    def __init__(self, frame: bytes, runs: Sequence[Run]) -> None:
        """`runs`: one or more, by position, at least a byte apart, the first one behind the header. Raises ValueError
        unless all are of the same one or two codes.
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
        """Look at a frame of `size` bytes in data[start:]. None: it is another request.

        Else its parts: constant bytes and the numbers of a run in turn, the first run being the correlation id, with
        constant bytes at the end.
        """
        parts = self._unpack(data, start)
        return parts if b"".join(parts[:: self._every]) == self._constants else None


@lru_cache(maxsize=1_000)
def _unpacker(layout: str) -> Callable[[bytes, int], tuple[Any, ...]]:
    """Templates of one layout share its struct."""
    return Struct(layout).unpack_from


def runs_between(low: bytes, high: bytes, codes: dict[int, str]) -> list[Run]:
    """Where two encodings of one message differ whose varying numbers are all 0 in one and all -1 in the other.

    `codes`: what a run of so many bytes consists of. Raises ValueError when there is a run of another length, or when
    they differ in length.
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
