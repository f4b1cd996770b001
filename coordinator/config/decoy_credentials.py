"""What the made-up credentials of SCRAM are like, for users that there are not: as those of the users that there are.

A client that asks for a user gets a salt and a number of iterations, also when there is no such user. It must not see
that: not by asking again, not by asking after a restart, and not by iterations that no user has.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Callable
from itertools import accumulate
from typing import Final

from muster.coordinator.log.storage.interfaces import Storage
from muster.coordinator.security.sasl.scram import MIN_ITERATIONS
from muster.coordinator.topics.metadata_state import MetadataState

SECRET_FILE: Final = "scram.secret"
_BYTES: Final = 32
_ONE: Final = 1 << 32


def secret(storage: Storage, draw: Callable[[], bytes]) -> bytes:
    """What salts are derived from: kept in the data directory, drawn when it is first needed."""
    kept = storage.load(SECRET_FILE)
    if kept is not None and len(kept) == _BYTES:
        return kept
    drawn = draw() + draw()
    storage.save(SECRET_FILE, drawn, sync=True)
    return drawn


class Iterations:
    """How many iterations a made-up user has: each number as often as the users that there are have it."""

    def __init__(self, state: Callable[[], MetadataState]) -> None:
        """`state`: what the metadata log says now."""
        self._state = state
        self._version = -1
        self._known: dict[int, tuple[list[int], list[int]]] = {}

    def __call__(self, kind: int, drawn: int) -> int:
        """`kind`: type of the mechanism; `drawn`: for this user, below 2^32."""
        state = self._state()
        if state.version != self._version:
            self._version = state.version
            self._known.clear()
        if kind not in self._known:
            counts = Counter(one.iterations for (_, type_), one in state.scram.items() if type_ == kind)
            numbers = sorted(counts)
            self._known[kind] = numbers, list(accumulate(counts[one] for one in numbers))
        numbers, ends = self._known[kind]
        return numbers[bisect_right(ends, drawn * ends[-1] // _ONE)] if numbers else MIN_ITERATIONS
