"""Finds which member replaced which: members that left and members that joined, as exchanges.

A member may return under another id, and from another host (a pod). It may return before the old member has left (a
deploy that overlaps). Several members may have the same client id and host. Then the order of their joins and
departures distinguishes their places.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import Final, NamedTuple

from muster.pipeline.episodes import thresholds as limits
from muster.pipeline.episodes.model import DEATHS, Stay

_FAR: Final = 2**62


class Change(NamedTuple):
    """A member left, joined, or left and was replaced. `gone` and `came` are indexes in the list of stays."""

    gone: int | None
    came: int | None
    gone_ms: int
    """When the member left; if it only joined, when it joined."""
    back_ms: int | None
    """When another member was in the place again. It is None if nobody replaced the member."""
    how: str | None
    place: int
    """The number of the place. All members that were in one place, one after the other, have the same number."""

    @property
    def overlaps(self) -> bool:
        """Whether the new member joined before the old member had left."""
        return self.gone is not None and self.back_ms is not None and self.back_ms < self.gone_ms

    @property
    def died(self) -> bool:
        """Whether the coordinator removed the member that left."""
        return self.how in DEATHS

    @property
    def until_ms(self) -> int:
        """The end of the change."""
        return self.gone_ms if self.back_ms is None else max(self.gone_ms, self.back_ms)

    @property
    def from_ms(self) -> int:
        """The start of the change."""
        return self.gone_ms if self.back_ms is None else min(self.gone_ms, self.back_ms)


def changes(stays: Sequence[Stay]) -> list[Change]:
    """All changes, in the order of time. `stays` must be in the order in which they began."""
    followed = _Linker(stays).run()
    place_of: dict[int, int] = {}
    for number in range(len(stays)):
        place_of.setdefault(number, number)
        if number in followed:
            place_of[followed[number]] = place_of[number]
    came_after = set(followed.values())
    found = []
    for number, stay in enumerate(stays):
        if number not in came_after:
            found.append(Change(None, number, stay.start_ms, stay.start_ms, None, place_of[number]))
        if stay.end_ms is not None:
            back = followed.get(number)
            back_ms = None if back is None else stays[back].start_ms
            found.append(Change(number, back, stay.end_ms, back_ms, stay.how, place_of[number]))
    return sorted(found, key=lambda one: (one.from_ms, one.gone_ms, one.place))


class _Linker:
    """Reads joins and departures in their order, and finds who replaced whom."""

    def __init__(self, stays: Sequence[Stay]) -> None:
        self._stays = stays
        self._followed: dict[int, int] = {}
        self._away: list[int] = []
        """Indexes of the members that left and are not replaced."""
        self._new: list[int] = []
        """Indexes of the members that joined and replaced nobody."""
        self._alive: dict[tuple[str, ...], int] = defaultdict(int)
        self._starts: dict[tuple[str, ...], list[int]] = defaultdict(list)
        for number, stay in enumerate(stays):
            self._starts[stay.who.slot].append(number)

    def run(self) -> dict[int, int]:
        """Returns which stay replaced which: the index of the old stay, and that of the new stay."""
        steps = [(stay.start_ms, 1, number) for number, stay in enumerate(self._stays)]
        steps += [(stay.end_ms, 0, number) for number, stay in enumerate(self._stays) if stay.end_ms is not None]
        for _, kind, number in sorted(steps):
            if kind:
                self._on_join(number)
            else:
                self._on_departure(number)
        return self._followed

    def _on_join(self, number: int) -> None:
        stay = self._stays[number]
        self._alive[stay.who.slot] += 1
        self._away = [one for one in self._away if not self._is_long_ago(one, stay)]
        best = max(((rank, one) for one in self._away if (rank := self._rank(one, stay)) is not None), default=None)
        if best is None:
            self._new.append(number)
            return
        self._away.remove(best[1])
        self._followed[best[1]] = number

    def _is_long_ago(self, gone: int, stay: Stay) -> bool:
        old = self._stays[gone]
        return old.who.instance_id is None and stay.start_ms - (old.end_ms or 0) > limits.RETURN_MS

    def _rank(self, gone: int, stay: Stay) -> tuple[int, int] | None:
        """How well a member that joins fits the place of a member that left. None means that it does not fit."""
        old = self._stays[gone]
        ms = stay.start_ms - (old.end_ms or 0)
        if old.who.slot == stay.who.slot:
            return 3, old.end_ms or 0
        if old.who.instance_id is not None or stay.who.instance_id is not None:
            return None  # a static member is only replaced by a member with the same instance id
        if old.who.client_id == stay.who.client_id and ms <= limits.TOGETHER_MS:
            return 2, -(old.end_ms or 0)
        if ms <= (limits.RETURN_MS if old.how in DEATHS else limits.EXCHANGE_MS):
            return 1, -(old.end_ms or 0)
        return None

    def _on_departure(self, number: int) -> None:
        stay, slot = self._stays[number], self._stays[number].who.slot
        self._alive[slot] -= 1
        end_ms = stay.end_ms or 0
        self._new = [one for one in self._new if end_ms - self._stays[one].start_ms <= limits.OVERLAP_MS]
        before = next((one for one in self._new if self._took_over(number, one)), None)
        is_certain = before is not None and self._had_died(stay, self._stays[before])
        if before is not None and (is_certain or self._alive[slot] > 1 or not self._returns(number)):
            self._new.remove(before)
            self._followed[number] = before
            return
        self._away.append(number)

    def _took_over(self, gone: int, came: int) -> bool:
        """Did the new member (`came`) join before the old member (`gone`) left, and replace it?"""
        old, new = self._stays[gone], self._stays[came]
        if came == gone or new.start_ms <= old.start_ms or (new.end_ms or _FAR) <= (old.end_ms or 0):
            return False
        same = old.who.slot == new.who.slot
        if not same and (old.who.instance_id is not None or new.who.instance_id is not None):
            return False
        if same and old.how in DEATHS:
            return True  # a process may return before its old session has ended

        # if the old member stayed for long after the new one joined, both worked side by side
        is_near = (old.end_ms or 0) - new.start_ms < new.start_ms - old.start_ms
        return old.how not in DEATHS and is_near

    @staticmethod
    def _had_died(old: Stay, new: Stay) -> bool:
        """Had the old process given its last sign of life before the new process of the same name joined?"""
        is_dead = old.how in DEATHS and old.lost_ms is not None and old.lost_ms <= new.start_ms
        return is_dead and old.who.slot == new.who.slot and (old.end_ms or 0) - (old.silent_ms or 0) <= new.start_ms

    def _returns(self, number: int) -> bool:
        stay = self._stays[number]
        end_ms = stay.end_ms or 0
        return any(0 <= self._stays[one].start_ms - end_ms <= limits.RETURN_MS for one in self._starts[stay.who.slot])
