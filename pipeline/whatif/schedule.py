"""The facts that come to a group from outside under one setting. A replay plays them. Pure.

Processes start, stop, fall silent and return; some join again by themselves; topics grow. A setting changes some of
these facts. A deploy is a set of restarts that happened together. In a restart a process stops, and another one with
the same client id and host starts. Restarts at different places within GAP_MS of each other, of at least half of the
group, are one deploy.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from enum import Enum
from itertools import pairwise
from typing import Final, NamedTuple

from muster.pipeline.whatif.history import AFTER, BEFORE, CLASSIC, CONSUMER, FAR, Offer, Offers
from muster.pipeline.whatif.processes import LEAVES, SILENT, SLOW, Absence, Clients, Process
from muster.pipeline.whatif.settings import ON_THE_SERVER, Setting

GAP_MS: Final = 600_000
"""The longest time between two restarts of one deploy, and the longest time of one restart."""
SETTLE_MS: Final = 1_000
"""The time from the return of one batch until the next stops, if the history does not show it."""


class Restart(NamedTuple):
    """A process that starts in place of another one."""

    stop_ms: int
    start_ms: int
    old: Process
    new: Process


def deploys(clients: Clients) -> list[list[Restart]]:
    """Each deploy as the list of its restarts, in the order in which the processes stopped."""
    found: list[list[Restart]] = []
    for restart in sorted(_restarts(clients), key=lambda one: (one.stop_ms, one.old.index)):
        last = found[-1] if found else None
        if last is not None and _goes_on(last, restart):
            last.append(restart)
        else:
            found.append([restart])
    return [one for one in found if len(one) > 1 and 2 * len(one) >= _alive(clients, one[0].stop_ms)]


def shifted(clients: Clients, at_a_time: int) -> tuple[dict[int, int], dict[int, int]]:
    """When processes start and when they stop, by index, if deploys restart `at_a_time` members at once (0: all).

    Only changed times are in the result. Each process is away as long as it really was. A deploy is not changed if a
    process would then start after its stop.
    """
    starts: dict[int, int] = {}
    stops: dict[int, int] = {}
    for deploy in deploys(clients):
        size = at_a_time or len(deploy)
        settle_ms = _settle_ms(deploy)
        begin_ms = deploy[0].stop_ms
        new_starts, new_stops = {}, {}
        for first in range(0, len(deploy), size):
            batch = deploy[first : first + size]
            for restart in batch:
                new_stops[restart.old.index] = begin_ms
                new_starts[restart.new.index] = begin_ms + restart.start_ms - restart.stop_ms
            begin_ms = max(new_starts[one.new.index] for one in batch) + settle_ms
        if all(_fits(one, new_starts, new_stops) for one in deploy):
            starts |= new_starts
            stops |= new_stops
    return starts, stops


def _restarts(clients: Clients) -> list[Restart]:
    found = []
    for new in clients.processes:
        old, start_ms = new.replaces, new.start_ms
        if old is not None and start_ms is not None and 0 <= start_ms - old.end_ms <= GAP_MS:
            found.append(Restart(old.end_ms, start_ms, old, new))
    return found


def _goes_on(deploy: list[Restart], restart: Restart) -> bool:
    last_ms = max(one.start_ms for one in deploy)
    return restart.stop_ms - last_ms <= GAP_MS and all(one.new.slot != restart.new.slot for one in deploy)


def _alive(clients: Clients, ms: int) -> int:
    return sum((one.start_ms is None or one.start_ms <= ms) and one.end_ms >= ms for one in clients.processes)


def _settle_ms(deploy: list[Restart]) -> int:
    """The usual time from the return of one process to the stop of the next."""
    gaps = sorted(
        after.stop_ms - before.start_ms for before, after in pairwise(deploy) if after.stop_ms > before.start_ms
    )
    return gaps[len(gaps) // 2] if gaps else SETTLE_MS


def _fits(restart: Restart, starts: dict[int, int], stops: dict[int, int]) -> bool:
    old, new = restart.old, restart.new
    old_start_ms = starts.get(old.index, old.start_ms)
    new_stop_ms = stops.get(new.index, new.end_ms)
    old_busy = [one.until_ms for one in old.absences[:-1]]
    new_busy = [one.from_ms for one in new.absences[:1]]
    return (
        (old_start_ms is None or old_start_ms < stops[old.index])
        and starts[new.index] < new_stop_ms
        and all(ms < stops[old.index] for ms in old_busy)
        and all(ms > starts[new.index] for ms in new_busy)
    )


USUAL_STRATEGY: Final = "range"
"""The default strategy of classic consumers."""


class Act(Enum):
    """What happens in a fact. With Act.LEAD the leader joins again, and with Act.COUNTS topics get other partitions."""

    ASK = "ask"
    START = "start"
    LEAVE = "leave"
    VANISH = "fall_silent"
    BACK = "back"
    REJOIN = "rejoin"
    LEAD = "lead"
    COUNTS = "counts"
    DELETE = "delete"


class Fact(NamedTuple):
    """A fact of a schedule. `who`: the index of a process. `value`: the numbers of partitions, for Act.COUNTS."""

    ms: int
    rank: int
    order: int
    kind: Act
    who: int = -1
    value: dict[str, int] | None = None


@dataclass(slots=True)
class Part:
    """A process under one setting."""

    process: Process
    instance_id: str | None
    session_timeout_ms: int
    rebalance_timeout_ms: int
    start_ms: int | None
    absences: list[Absence]

    @property
    def end_ms(self) -> int:
        """When the process leaves for good; FAR: it does not."""
        return self.absences[-1].from_ms if self.absences and self.absences[-1].until_ms == FAR else FAR

    def offers(self, ms: int, assignor: str | None) -> Offers:
        """What the process offers at the time `ms`."""
        offers = self.process.offers(ms)
        if assignor is None or not offers:
            return offers
        return (Offer(assignor, offers[0].topics),)


@dataclass(slots=True)
class Schedule:
    """All facts under one setting. `facts` are in the order in which they are played."""

    clients: Clients
    setting: Setting
    parts: list[Part]
    facts: list[Fact]
    initial_delay_ms: int

    @property
    def protocol(self) -> str:
        """The protocol of the group in this replay."""
        setting = self.setting
        if setting.protocol is None and setting.assignor not in (None, *ON_THE_SERVER):
            return CLASSIC  # no server has this strategy
        return setting.protocol or self.clients.history.protocol

    def wanted(self) -> list[tuple[int, int]]:
        """The times in which a process wants to read, or is being restarted, as intervals in order."""
        spans = []
        for part in self.parts:
            start_ms, before = part.start_ms, part.process.replaces
            if start_ms is None:
                start_ms = -FAR
            elif before is not None:
                stop_ms = self.parts[before.index].end_ms
                if 0 < start_ms - stop_ms <= GAP_MS:
                    start_ms = stop_ms
            spans.append((start_ms, part.end_ms))
        found: list[tuple[int, int]] = []
        for start_ms, end_ms in sorted(spans):
            if found and start_ms <= found[-1][1]:
                found[-1] = found[-1][0], max(found[-1][1], end_ms)
            else:
                found.append((start_ms, end_ms))
        return found

    def key(self) -> tuple[object, ...]:
        """A key of the schedule. Two schedules of one history with equal keys have the same replay."""
        parts = self.parts
        # the session timeout matters only for a member that is silent for a while
        sessions = tuple(
            part.session_timeout_ms if any(one.kind != LEAVES for one in part.absences) else 0 for part in parts
        )
        # a rebalance waits only for members that are silent or slow
        waits = any(one.kind != LEAVES or one.polled_ms is not None for part in parts for one in part.absences)
        starts_empty = self.clients.history.given is None or bool(self.clients.history.emptied)
        shrinks = any(one.until_ms == FAR for part in parts for one in part.absences)
        setting = self.setting
        return (
            self.protocol,
            setting.session_timeout_ms if self.protocol == CONSUMER else None,
            setting.assignor,
            setting.heartbeat_interval_ms,
            sessions,
            setting.rebalance_timeout_ms if waits else None,
            self.initial_delay_ms if starts_empty or shrinks else 0,
            tuple(part.instance_id for part in parts),
            tuple((fact.ms, fact.rank, fact.kind, fact.who) for fact in self.facts),
        )


def plan(clients: Clients, setting: Setting) -> Schedule:
    """The schedule of a history under a setting."""
    history = clients.history
    if setting.protocol == CLASSIC != history.protocol and setting.assignor is None:
        setting = replace(setting, assignor=USUAL_STRATEGY)  # no member had a strategy of its own
    starts, stops = shifted(clients, setting.deploy) if setting.deploy is not None else ({}, {})
    parts = []
    for process in clients.processes:
        stay = process.stays[-1]
        index = process.index
        absences = process.absences
        if index in stops:
            moved_ms = stops[index]
            absences = [*absences[:-1], absences[-1]._replace(from_ms=moved_ms)]
        if setting.rebalance_timeout_ms is not None:
            absences = [_with_patience(one, setting.rebalance_timeout_ms) for one in absences]
        if setting.static and stay.instance_id is None:
            # a static member sends no LeaveGroup, because it is to return
            absences = [one._replace(kind=SILENT) if one.kind == LEAVES else one for one in absences]
        parts.append(
            Part(
                process,
                process.slot if setting.static and stay.instance_id is None else stay.instance_id,
                setting.session_timeout_ms or stay.session_timeout_ms,
                setting.rebalance_timeout_ms or stay.rebalance_timeout_ms,
                starts.get(index, process.start_ms),
                absences,
            )
        )
    delay_ms = history.initial_delay_ms if setting.initial_delay_ms is None else setting.initial_delay_ms
    return Schedule(clients, setting, parts, _facts(clients, parts), delay_ms)


def _with_patience(absence: Absence, patience_ms: int) -> Absence:
    """The absence under a rebalance timeout of `patience_ms`.

    A member that left because it polled too late would have stayed, only slow, with a longer timeout.
    """
    if absence.polled_ms is None or absence.until_ms == FAR or absence.until_ms - absence.polled_ms > patience_ms:
        return absence
    return absence._replace(kind=SLOW)


def _facts(clients: Clients, parts: list[Part]) -> list[Fact]:
    history = clients.history
    facts = [Fact(ms, -1, 0, Act.COUNTS, value=counts) for ms, counts in history.counts]
    facts += [Fact(ms, AFTER, 0, Act.DELETE) for ms in history.deleted]
    for part in parts:
        facts += _start(part)
        for absence in part.absences:
            facts += _absence(part.process, absence)
    for ms, member_id, rank in history.rejoins:
        if member_id is None:
            facts.append(Fact(ms, rank, 0, Act.LEAD))
        elif member_id in clients.by_member:
            facts.append(Fact(ms, rank, 0, Act.REJOIN, clients.by_member[member_id].index))
    return sorted(fact._replace(order=order) for order, fact in enumerate(facts))


def _start(part: Part) -> Iterator[Fact]:
    process, stay = part.process, part.process.stays[0]
    if part.start_ms is not None:
        if stay.asked_ms is not None and part.start_ms == process.start_ms:
            yield Fact(stay.asked_ms, BEFORE, 0, Act.ASK, process.index)
        yield Fact(part.start_ms, stay.joined_rank, 0, Act.START, process.index)


def _absence(process: Process, absence: Absence) -> Iterator[Fact]:
    if absence.kind != SLOW:
        kind = Act.LEAVE if absence.kind == LEAVES else Act.VANISH
        yield Fact(absence.from_ms, absence.rank, 0, kind, process.index)
    back = next((one for one in process.stays if one.joined_ms == absence.until_ms), None)
    # a process that was only slow joins again by itself at that time
    if absence.until_ms != FAR and (absence.kind != SLOW or back is not None):
        yield Fact(absence.until_ms, BEFORE if back is None else back.joined_rank, 0, Act.BACK, process.index)
