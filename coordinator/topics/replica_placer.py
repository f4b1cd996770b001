"""Places the replicas of new partitions, as Kafka's StripedReplicaPlacer does. Pure, apart from the given `draw`.

A fenced broker gets no leader, and another replica only when the other brokers are too few.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Final, TypeVar

from muster.coordinator.topics.errors import ApiError
from muster.protocol.errors import ErrorCode

Draw = Callable[[int], int]
"""Returns a random number from 0 on, below its argument."""
_NOBODY: Final = -1

T = TypeVar("T")


def replicas(
    racks: Mapping[int, str | None], fenced: Iterable[int], partitions: int, factor: int, draw: Draw
) -> list[list[int]]:
    """Return the brokers of each new partition, the leader first. Raises `ApiError`: INVALID_REPLICATION_FACTOR."""
    without = frozenset(fenced)
    usable = len(racks) - len(without.intersection(racks))
    if factor > len(racks):
        raise ApiError(
            ErrorCode.INVALID_REPLICATION_FACTOR,
            f"Unable to replicate the partition {factor} time(s): The target replication factor of {factor} cannot be "
            f"reached because only {len(racks)} broker(s) are registered or some brokers have all their log "
            "directories cordoned.",
        )
    if not usable:
        raise ApiError(
            ErrorCode.INVALID_REPLICATION_FACTOR,
            f"Unable to replicate the partition {factor} time(s): All brokers are currently fenced or have all their "
            "log directories cordoned.",
        )
    if len(racks) == 1:
        return [list(racks) for _ in range(partitions)]
    return _Stripes(racks, without, usable, draw).of(partitions, factor)


class _Brokers:
    """The fenced, or the unfenced, brokers of one rack, taken in turn. A partition gets each broker once at most."""

    __slots__ = ("_dealt", "_number", "_offset", "brokers")

    def __init__(self, brokers: Iterable[int], draw: Draw) -> None:
        self.brokers = sorted(brokers)
        self._offset = draw(len(self.brokers)) if self.brokers else 0
        self._number = self._dealt = 0

    def next(self, number: int) -> int:
        """The next broker for the partition of this number, or _NOBODY."""
        brokers = self.brokers
        if not brokers:
            return _NOBODY
        if number != self._number:
            self._number, self._dealt = number, 0
            self._offset = (self._offset + 1) % len(brokers)
        if self._dealt >= len(brokers):
            return _NOBODY
        found = brokers[(self._dealt + self._offset) % len(brokers)]
        self._dealt += 1
        return found


class _Stripes:
    __slots__ = ("_draw", "_number", "_place", "_racks", "_usable")

    def __init__(self, racks: Mapping[int, str | None], fenced: frozenset[int], usable: int, draw: Draw) -> None:
        self._draw = draw
        self._usable = usable
        names = sorted(set(racks.values()), key=lambda rack: (rack is not None, rack or ""))
        self._racks = [
            (
                _Brokers((one for one in racks if racks[one] == name and one not in fenced), draw),
                _Brokers((one for one in racks if racks[one] == name and one in fenced), draw),
            )
            for name in names
        ]
        self._place = draw(len(names))
        self._number = 0

    def of(self, partitions: int, factor: int) -> list[list[int]]:
        """Return the brokers of each of `partitions` new partitions."""
        return [self._next(factor) for _ in range(partitions)]

    def _next(self, factor: int) -> list[int]:
        racks, count = self._racks, len(self._racks)
        if self._number == self._usable and self._usable > 1:
            # each broker was first once: the order changes, so that the same rows do not repeat
            _shuffle(racks, self._draw)
            for unfenced, fenced in racks:
                _shuffle(unfenced.brokers, self._draw)
                _shuffle(fenced.brokers, self._draw)
            self._number = 0
        number, start = self._number, self._place % count
        of_leader = start
        while (leader := racks[of_leader][0].next(number)) == _NOBODY:
            of_leader = (of_leader + 1) % count
        found, place, passed_over = [leader], start, of_leader
        while len(found) < factor:
            if place == passed_over:
                passed_over = _NOBODY  # the leader's rack was used once
            else:
                unfenced, fenced = racks[place]
                one = unfenced.next(number)
                if one == _NOBODY:
                    one = fenced.next(number)
                if one != _NOBODY:
                    found.append(one)
            place = (place + 1) % count
        self._number += 1
        self._place = start + 1
        return found


def _shuffle(items: list[T], draw: Draw) -> None:
    for last in range(len(items) - 1, 0, -1):
        other = draw(last + 1)
        items[last], items[other] = items[other], items[last]
