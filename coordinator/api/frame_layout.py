"""The places of the numbers that may vary in frames of one size (`FrameLayout`).

Every other byte but the correlation id must be equal. Then a frame would decode to the same message with other numbers.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from functools import lru_cache
from struct import Struct
from typing import Any, Final

Run = tuple[int, str]
"""The place in a frame where varying numbers begin, and their types: `struct` codes, big-endian."""

_ID_AT: Final = 4
"""The place of the correlation id in a frame: after API key and version."""
_ID: Final = {1: "4s", 2: "2s2s"}
"""The types of the correlation id, by the number of numbers in a run. The id is cut into as many parts as a run."""
_VARIED: Final = re.compile(b"\xff+")


class FrameLayout:
    """The places of the numbers that may vary in frames of one size. All other bytes but the correlation id are
    constant. Connections share layouts (`layout_of`).
    """

    __slots__ = ("every", "size", "unpack")

    def __init__(self, size: int, runs: Sequence[Run]) -> None:
        """`runs`: one or more runs after the header, in order, at least a byte apart. Raises ValueError unless all runs
        have the same one or two codes.
        """
        kinds = {codes for _, codes in runs}
        codes = kinds.pop() if len(kinds) == 1 else ""
        if len(codes) not in _ID:
            raise ValueError("the runs must all have the same one or two types")
        self.size = size
        layout, at = ">", 0
        for where, what in ((_ID_AT, _ID[len(codes)]), *runs):
            layout += f"{where - at}s{what}"
            at = where + Struct(f">{what}").size
        layout += f"{size - at}s"
        self.unpack: Callable[[bytes, int], tuple[Any, ...]] = Struct(layout).unpack_from
        """The parts of a frame. Constant bytes and the numbers of a run alternate. The first run is the correlation id.
        """
        self.every = len(codes) + 1
        """Each part with this distance is constant."""

    def constants(self, frame: bytes) -> bytes:
        """The constant bytes of a frame. Frames with equal constants differ only in their numbers."""
        return b"".join(self.unpack(frame, 0)[:: self.every])


@lru_cache(maxsize=1_000)
def layout_of(size: int, runs: tuple[Run, ...]) -> FrameLayout:
    """The shared layout, see `FrameLayout`."""
    return FrameLayout(size, runs)


def runs_between(low: bytes, high: bytes, codes: dict[int, str]) -> list[Run]:
    """The runs in which `low` (numbers: 0) and `high` (-1) differ. `codes`: by length in bytes. Raises ValueError."""
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
