"""What the epochs of a KIP-848 group cost, in the figures of `costs`. Plain sums.

The rules differ where the protocol does, because no member stops what it keeps:

* A rebalance is a target assignment.
* A partition has moved when its owner is not its last one.
* Paused: each partition by itself, from when its owner was told to give it up, or was gone, until another has it.
* Silent: as there; a dead member is away until its session is over, a group without members until one comes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from typing import Final

from muster.pipeline.whatif.costs import ALWAYS, Figures, Partition, wanted_ms
from muster.pipeline.whatif.history import Owned

_NOTHING: Final[frozenset[Partition]] = frozenset()


class EpochCosts:
    """Adds up the costs of what happens, in order. `who` is a name that an owner keeps."""

    __slots__ = ("_away", "_detected", "_free", "_last", "_moved", "_orphans", "_orphans_ms", "_owned", "_paused",
                 "_rebalances", "_silent", "_wanted")  # fmt: skip

    def __init__(self, wanted: Sequence[tuple[int, int]] = ALWAYS) -> None:
        """`wanted`: when a process wants to read, as intervals in order."""
        self._wanted = wanted
        self._rebalances = self._moved = self._paused = self._silent = 0
        self._detected: list[int] = []
        self._last: dict[Partition, str] = {}
        self._owned: dict[str, Set[Partition]] = {}
        self._free: dict[Partition, int] = {}
        """Since when it has no owner, although the group has members."""
        self._orphans: set[Partition] = set()
        """What the group had when its last member went, and nobody has since."""
        self._orphans_ms = 0
        self._away: dict[str, tuple[int, int]] = {}
        """Members that are silent: since when, and from when on it is not counted yet."""

    def given(self, shares: Mapping[str, Owned]) -> None:
        """Who has what when the history begins."""
        for who, share in shares.items():
            places = self._owned[who] = partitions_of(share)
            self._last |= dict.fromkeys(places, who)

    def target(self) -> None:
        """A target assignment is there."""
        self._rebalances += 1

    def has(self, who: str, places: Set[Partition], ms: int) -> None:
        """A member owns these partitions now."""
        before = self._owned.get(who, _NOTHING)
        if before == places:
            return
        self._hush(who, ms)
        for place in before - places:
            self._free[place] = ms
        for place in places - before:
            since_ms = self._free.pop(place, None)
            if place in self._orphans:
                self._orphans.discard(place)
                self._silent += wanted_ms(self._wanted, self._orphans_ms, ms)
            elif since_ms is not None:
                self._paused += ms - since_ms
            self._moved += self._last.setdefault(place, who) != who
            self._last[place] = who
        self._owned[who] = places

    def took(self, who: str, place: Partition, ms: int, paused_ms: int | None) -> None:
        """A member has this partition now, and nobody else; `paused_ms`: since it was taken from the one before."""
        last = self._last.get(place)
        self._hush(who, ms)
        if last is not None and last != who:
            self._hush(last, ms)
            self._owned[last] = self._owned.get(last, _NOTHING) - {place}
        self._free.pop(place, None)
        if place in self._orphans:
            self._orphans.discard(place)
            self._silent += wanted_ms(self._wanted, self._orphans_ms, ms)
        self._paused += paused_ms or 0
        self._moved += self._last.setdefault(place, who) != who
        self._last[place] = who
        self._owned[who] = self._owned.get(who, _NOTHING) | {place}

    def settled(self) -> None:
        """All members have what they are to have: a partition without an owner is wanted by nobody."""
        self._free.clear()

    def vanished(self, who: str, ms: int) -> None:
        """Nothing is heard of a member from now on."""
        self._away[who] = ms, ms

    def back(self, who: str, ms: int) -> None:
        """It is heard of again, or another process is in its place. It was a member all the time."""
        self._hush(who, ms)
        self._away.pop(who, None)

    def gone(self, who: str, ms: int) -> None:
        """A member has left or was removed."""
        self._hush(who, ms)
        away = self._away.pop(who, None)
        if away is not None:
            self._detected.append(ms - away[0])
        self._free |= dict.fromkeys(self._owned.pop(who, _NOTHING), ms)

    def emptied(self, ms: int) -> None:
        """The group has no members left."""
        self._paused += sum(ms - since_ms for since_ms in self._free.values())
        if self._free:
            self._orphans, self._orphans_ms = set(self._free), ms
        self._free.clear()

    def figures(self, ms: int) -> Figures:
        """The sums at the end; what still lasts counts until then."""
        for who in self._away:
            self._hush(who, ms)
        paused = self._paused + sum(ms - since_ms for since_ms in self._free.values())
        silent = self._silent + wanted_ms(self._wanted, self._orphans_ms, ms) * len(self._orphans)
        detected = self._detected
        mean_ms = sum(detected) / len(detected) if detected else None
        return Figures(self._rebalances, self._moved, paused, silent, mean_ms)

    def _hush(self, who: str, ms: int) -> None:
        """Count the silence of a member, if it is away, up to now."""
        away = self._away.get(who)
        if away is not None:
            self._silent += wanted_ms(self._wanted, away[1], ms) * len(self._owned.get(who, _NOTHING))
            self._away[who] = away[0], ms


def partitions_of(share: Owned) -> frozenset[Partition]:
    """What a member has, one by one."""
    return frozenset((topic, number) for topic, numbers in share.items() for number in numbers)
