"""The processes behind the member ids of a history: which processes returned, and which were new.

A stay is the time of one member id. It may have ended without a LeaveGroup, and another stay of the same client id and
host may follow. Two signs show that the process was alive, and only paused. A request of the process was refused in
between, because it was no member any more. Or the process still knows its partitions (under the sticky strategies).
Otherwise the process had died, and the next stay is a new process. A process that left because its application did not
poll continues when it joins again.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from muster.pipeline.defaults import HEARTBEAT_MS
from muster.pipeline.episodes.model import is_slow
from muster.pipeline.episodes.thresholds import SLOW_TWICE
from muster.pipeline.whatif.history import (
    AFTER,
    BEFORE,
    CLASSIC,
    COMPLETED,
    EVENTS,
    EXPIRED,
    FAR,
    JOIN_TIMEOUT,
    LEFT,
    REPLACED,
    SYNC_TIMEOUT,
    History,
    Offers,
    Round,
    Stay,
)

LEAVES: Final = "leaves"
SILENT: Final = "silent"
SLOW: Final = "slow"
"""The kinds of absences. In LEAVES a process leaves. In SILENT it is silent. In SLOW it sends heartbeats, but does not
join or sync.
"""
POLLED_TOO_LATE: Final = "consumer poll timeout has expired"
"""The start of the reason with which Java's consumer leaves if its application does not poll."""
_REFUSED_WITHIN_MS: Final = 1_000
"""Refusals are counted for each second, so their times are late by up to this."""
_SLOW_MS: Final = 10_000
"""A member that takes longer than this to join again is slow."""
_LATENCY_MS: Final = 100
"""The longest time that a request takes."""
_ENOUGH: Final = 5
"""After this many reactions, it is known how long members need at most."""
_CLOCKS_DIFFER_MS: Final = 10
_NEAR_MS: Final = 1_000
"""A rebalance of a replay that begins within this time of a real one counts as the same."""


class Absence(NamedTuple):
    """A time in which a process does not act as a member. `until_ms` is FAR if the process never returns."""

    kind: str
    from_ms: int
    until_ms: int
    rank: int
    polled_ms: int | None = None
    """The last poll of a process that left because it had not polled in time."""


@dataclass(slots=True)
class Process:
    """A process. It may have had several member ids, one after the other."""

    index: int
    slot: str
    """The group.instance.id that would be made of client id and host. Processes in one place have the same slot."""
    start_ms: int | None
    """When the process started; None: it was a member when the history began."""
    stays: list[Stay] = field(default_factory=list)
    absences: list[Absence] = field(default_factory=list)
    replaces: Process | None = None
    """The process that it replaced."""
    joins_ms: list[int] = field(default_factory=list)
    """The times at which the process joined in real rebalances."""
    reactions: list[tuple[int, int]] = field(default_factory=list)
    """For each rebalance: when it began, and the time until the process joined again. They are in the order of time."""

    @property
    def end_ms(self) -> int:
        """When the process left for good; FAR: it did not."""
        return self.absences[-1].from_ms if self.absences and self.absences[-1].until_ms == FAR else FAR

    def offers(self, ms: int) -> Offers:
        """What the process offers at the time `ms`."""
        stay = self.stays[0]
        for later in self.stays[1:]:
            if later.joined_ms is not None and later.joined_ms <= ms:
                stay = later
        return stay.offered(ms)


class RealRound(NamedTuple):
    """A real rebalance, with the indexes of processes in place of member ids."""

    round: Round
    joins: dict[int, int]
    syncs: dict[int, int]


class Clients:
    """All processes of a history, and their joins and syncs in its rebalances."""

    def __init__(self, history: History) -> None:
        self.history = history
        self.processes: list[Process] = []
        self.by_member: dict[str, Process] = {}
        self.reactions: list[tuple[int, int]] = []
        """The reactions of all processes (see `Process.reactions`)."""
        self._last_sign_ms: dict[str, int] = {}
        for one in history.rounds:
            for name, ms in (*one.joins.items(), *one.syncs.items()):
                self._last_sign_ms[name] = max(ms, self._last_sign_ms.get(name, 0))
        self._slots: dict[tuple[str, str], list[Process]] = {}
        self._instances: dict[str, Process] = {}
        for stay in sorted(history.stays, key=lambda one: -1 if one.joined_ms is None else one.joined_ms):
            self._place(stay)
        self._real_rounds = [self._real_round(one) for one in history.rounds]
        self._began = [one.began_ms for one in history.rounds]
        self._react()
        for stay in history.stays:
            self._end(stay)
        for process in self.processes:
            process.absences.sort(key=lambda one: one.from_ms)
        self.sync_ms = self._usual_sync_ms()
        self.heartbeat_ms = self._usual_heartbeat_ms()
        """The usual heartbeat interval of the members, as far as is known."""

    def near(self, ms: int) -> RealRound | None:
        """The real rebalance that began at about this time. It is None if no rebalance did."""
        began = self._began
        # the last rebalance that began before, and the first that began after. If several began in one ms, all but the
        # last are over
        at = bisect_right(began, ms)
        before_ms = ms - began[at - 1] if at else FAR
        after_ms = began[at] - ms if at < len(began) else FAR
        if min(before_ms, after_ms) > _NEAR_MS:
            return None
        return self._real_rounds[at - 1 if before_ms <= after_ms else bisect_right(began, began[at]) - 1]

    def reaction(self, process: Process, ms: int, rebalance_number: int) -> int | None:
        """The time until a process joins again.

        It is that of the nearest rebalance of the process, or else that of another process. None: not known.
        """
        known = process.reactions
        if not known:
            if not self.reactions:
                return None
            return self.reactions[(process.index * 7 + rebalance_number) % len(self.reactions)][1]
        at = bisect_right(known, (ms, FAR))
        if at and (at == len(known) or ms - known[at - 1][0] <= known[at][0] - ms):
            at -= 1
        return known[at][1]

    # ---- processes

    def _place(self, stay: Stay) -> None:
        before = self._paused(stay)
        if before is None:
            before = self._new(stay)
        elif stay.joined_ms is not None:
            last = before.absences.pop()
            before.absences.append(last._replace(until_ms=max(stay.joined_ms, last.from_ms)))
        before.stays.append(stay)
        self.by_member[stay.member_id] = before
        # this is provisional: the next stay must see that this one is gone. `_end` corrects it
        if stay.end is not None and stay.end_ms is not None:
            kind, since_ms, rank = _KINDS.get(stay.end, SILENT), stay.end_ms, stay.end_rank
            vanished_ms = self.vanished_ms(stay)
            if vanished_ms is not None:
                since_ms, rank = vanished_ms, AFTER
            polled_ms = stay.end_ms - stay.rebalance_timeout_ms if polled_too_late(stay) else None
            before.absences.append(Absence(kind, since_ms, FAR, rank, polled_ms))

    def vanished_ms(self, stay: Stay) -> int | None:
        """Since when a member was silent that expired, or a static member that was replaced.

        None: it is another member.
        """
        if stay.end not in (EXPIRED, REPLACED) or stay.heard_ms is None or stay.end_ms is None:
            return None
        return min(self._silent_ms(stay, stay.heard_ms), stay.end_ms)

    def _silent_ms(self, stay: Stay, heard_ms: int) -> int:
        """Since when a member was silent.

        A request after the last sign of life may be a late SyncGroup, which is no sign of life. Or the clock for
        deadlines differs from the clock of the log. If the last sign of life was only inferred, requests count as signs
        of life.
        """
        last_ms = self._last_sign_ms.get(stay.member_id, 0)
        is_stated = self.history.source == EVENTS and stay.end == EXPIRED
        if is_stated and last_ms - heard_ms > _CLOCKS_DIFFER_MS:
            return heard_ms
        return max(heard_ms, last_ms)

    def _paused(self, stay: Stay) -> Process | None:
        """The process that continues with this stay; None: a new process begins."""
        if stay.joined_ms is None:
            return None
        if stay.instance_id is None:
            places = self._slots.get((stay.client_id, stay.host), [])
        else:
            places = [one for one in (self._instances.get(stay.instance_id),) if one is not None]
        for process in reversed(places):
            last = process.stays[-1]
            if last.end_ms is None or last.end_ms > stay.joined_ms or process.end_ms == FAR:
                continue
            if stay.remembers or polled_too_late(last):
                return process
            if last.end in (EXPIRED, JOIN_TIMEOUT, SYNC_TIMEOUT) and self._was_refused(last, stay.joined_ms):
                return process
            return None
        return None

    def _was_refused(self, last: Stay, until_ms: int) -> bool:
        since_ms = (last.end_ms or 0) - _REFUSED_WITHIN_MS
        return any(
            one.client_id == last.client_id and one.host == last.host and since_ms <= one.ms <= until_ms
            for one in self.history.refusals
        )

    def _new(self, stay: Stay) -> Process:
        start_ms = stay.joined_ms
        if stay.instance_id is not None:
            replaces = self._instances.get(stay.instance_id)
            process = Process(len(self.processes), stay.instance_id, start_ms, replaces=replaces)
            self._instances[stay.instance_id] = process
        else:
            places = self._slots.setdefault((stay.client_id, stay.host), [])
            place = next(
                (at for at, one in enumerate(places) if one.end_ms <= (start_ms or 0) and start_ms is not None),
                len(places),
            )
            slot = f"{stay.client_id}@{stay.host.lstrip('/')}"
            replaces = places[place] if place < len(places) else None
            process = Process(len(self.processes), f"{slot}#{place}" if place else slot, start_ms, replaces=replaces)
            places[place : place + 1] = [process]
        self.processes.append(process)
        return process

    # ---- joins and syncs

    def _real_round(self, one: Round) -> RealRound:
        of = self.by_member
        joins = {of[name].index: ms for name, ms in one.joins.items() if name in of}
        syncs = {of[name].index: ms for name, ms in one.syncs.items() if name in of}
        return RealRound(one, joins, syncs)

    def _react(self) -> None:
        for real_round in self._real_rounds:
            for index, ms in real_round.joins.items():
                process = self.processes[index]
                process.joins_ms.append(ms)
                began_ms = real_round.round.began_ms
                is_new = any(stay.joined_ms is not None and stay.joined_ms == ms for stay in process.stays)
                if not is_new and self.by_member.get(real_round.round.trigger or "") is not process:
                    process.reactions.append((began_ms, ms - began_ms))
                    self.reactions.append((began_ms, ms - began_ms))
                    if ms - began_ms > _SLOW_MS:
                        process.absences.append(Absence(SLOW, began_ms, ms, BEFORE))

    def _end(self, stay: Stay) -> None:
        """Correct the SLOW absence of a member that was removed because it did not join or sync in time.

        The absence starts when the rebalance began in which the member was too slow.
        """
        if stay.end not in (JOIN_TIMEOUT, SYNC_TIMEOUT) or stay.end_ms is None:
            return
        process = self.by_member[stay.member_id]
        at = bisect_right(self._began, stay.end_ms) - 1
        while at > 0 and self._began[at] == stay.end_ms:  # the removal of the member began this rebalance
            at -= 1
        for number, absence in enumerate(process.absences):
            if absence.kind == SLOW and absence.from_ms == stay.end_ms and at >= 0:
                process.absences[number] = absence._replace(from_ms=self._began[at])

    def _usual_heartbeat_ms(self) -> int:
        """The usual heartbeat interval of the members.

        It is the default, or a third of the session timeout if that is shorter. With enough events, it is the number of
        whole seconds within which all members noticed rebalances, if that is shorter.
        """
        sessions = [stay.session_timeout_ms // 3 for stay in self.history.stays]
        most_ms = max(min([HEARTBEAT_MS, *sessions]), 1)
        noticed = [took_ms for _, took_ms in self.reactions if took_ms <= most_ms]
        if self.history.source != EVENTS or len(noticed) < _ENOUGH:
            return most_ms
        seconds = -(-max(max(noticed) - _LATENCY_MS, 1) // 1_000)
        return min(most_ms, seconds * 1_000)

    def _usual_sync_ms(self) -> int:
        """The usual time from the end of the join phase to the assignment."""
        took = sorted(
            one.ended_ms - one.joined_ms
            for one in self.history.rounds
            if one.outcome == COMPLETED and one.joined_ms is not None
        )
        return took[len(took) // 2] if took else 5


def polled_too_late(stay: Stay) -> bool:
    """Whether the member left, or was removed, because its application did not poll in time."""
    return stay.end == JOIN_TIMEOUT or (stay.end == LEFT and (stay.reason or "").startswith(POLLED_TOO_LATE))


_KINDS: Final = {
    LEFT: LEAVES,
    EXPIRED: SILENT,
    REPLACED: SILENT,
    JOIN_TIMEOUT: SLOW,
    SYNC_TIMEOUT: SLOW,
}


SILENT_MS: Final = 500
"""A last commit within this time before the end of a member shows nothing."""
_SESSIONS: Final = 0.9
"""A static member that was away for a longer share of its session would hardly still be a member.

So it was not away all that time, but had nothing to commit.
"""


def add_last_commits(history: History, heard: Mapping[str, Sequence[int]]) -> None:
    """Complete a history with the last commits of members.

    They show how long a static member was away before it returned. They also show which members left because they had
    not polled in time. `heard`: for each member id, the last commits in the stays of the member. A member that is
    missing there committed up to its end.
    """
    slow: dict[tuple[str, str, str | None], list[Stay]] = defaultdict(list)
    back = {(one.member_id, one.joined_ms) for one in history.stays if one.remembers}
    for stay in history.stays:
        end_ms = stay.end_ms
        if end_ms is None:
            continue
        heard_ms = max((ms for ms in heard.get(stay.member_id, ()) if ms <= end_ms), default=None)
        if heard_ms is None:
            continue
        silent_ms = end_ms - max(heard_ms, stay.joined_ms or 0)
        # in KIP-848 groups, the records say which members are away
        is_away = stay.end == REPLACED and history.protocol == CLASSIC
        if is_away and 0 < silent_ms < _SESSIONS * stay.session_timeout_ms:
            stay.heard_ms = end_ms - silent_ms
        # if a client's rebalance timeout equals its session timeout, the client has no time limit for polls
        has_polls = stay.rebalance_timeout_ms != stay.session_timeout_ms
        if stay.end == LEFT and not stay.reason and has_polls and is_slow(silent_ms, stay.rebalance_timeout_ms):
            slow[stay.client_id, stay.host, stay.instance_id].append(stay)
    for some in slow.values():
        # a member that left by itself, and is back under its id, did not stop on purpose
        if len(some) >= SLOW_TWICE or any(_is_back(one, back) for one in some):
            for stay in some:
                stay.reason = POLLED_TOO_LATE


def _is_back(stay: Stay, back: Collection[tuple[str, int | None]]) -> bool:
    return any(member_id == stay.member_id and (ms or 0) >= (stay.end_ms or 0) for member_id, ms in back)
