"""A group's schedule, played on a new core in virtual time, with model members that act like real clients.

Members join, sync, and join again when the group rebalances; the leader assigns. No heartbeats are sent: each member
sets once the time at which it falls silent. If a rebalance begins when a real one did, each member needs the time that
it really needed. Otherwise it needs its usual time.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple, Protocol, TypeVar

from muster.assignors.assignor import Topic
from muster.coordinator.groups.classic.group import COMPLETING, PREPARING, STABLE, ClassicGroup, classic_group
from muster.coordinator.groups.common import events
from muster.coordinator.groups.common.events import Event
from muster.coordinator.groups.common.image import NO_TOPICS
from muster.coordinator.groups.common.settings import GroupSettings
from muster.coordinator.groups.core import GroupCore
from muster.coordinator.state_machine.interface import Client, Command, Now
from muster.coordinator.state_machine.output import Output
from muster.pipeline.whatif.costs import Costs, Figures
from muster.pipeline.whatif.history import FAILED, FAR, Owned
from muster.pipeline.whatif.leader import AssignmentBook, is_cooperative
from muster.pipeline.whatif.member import Actor, initial_record
from muster.pipeline.whatif.processes import RealRound
from muster.pipeline.whatif.schedule import Act, Fact, Schedule
from muster.protocol.messages.delete_groups import DeleteGroupsRequest
from muster.protocol.messages.leave_group import LeaveGroupRequest, MemberIdentity

GONE: Final = (events.MEMBER_LEFT, events.MEMBER_EXPIRED, events.MEMBER_REMOVED)
"""The kinds of events after which a member is no longer in the group."""


class _Tally(Protocol):
    """The common methods of `Costs` and `EpochCosts`."""

    def gone(self, who: str, ms: int) -> None:
        """The member has left or was removed."""

    def back(self, who: str, ms: int) -> None:
        """Another process is in place of the member."""


class _Named(Protocol):
    name: str


_Actor = TypeVar("_Actor", bound=_Named)


def gone(event: Event, members: dict[str, _Actor], costs: _Tally, ms: int) -> None:
    """Handle an event after which a member is no longer in the group."""
    facts: dict[str, Any] = event.facts
    actor = members.pop(facts["member"].member, None)
    if actor is not None:
        costs.gone(actor.name, ms)


def replaced(event: Event, members: dict[str, _Actor], costs: _Tally, ms: int) -> _Actor | None:
    """Handle the event that another process has a member's instance id. The owner stays the same.

    Returns the old one.
    """
    facts: dict[str, Any] = event.facts
    old = members.pop(facts["replaced"], None)
    if old is not None:
        costs.back(old.name, ms)
    return old


def deletion(group_id: str) -> Command:
    """A DeleteGroups request whose answer is ignored."""
    return Command(DeleteGroupsRequest([group_id]), ignore, Client("", ""))


def ignore(_: object) -> None:
    """Ignore an answer."""


AT_ONCE_MS: Final = 5
"""The time that a member needs if it waits for an answer and gets it."""
STEPS: Final = 10_000
STEPS_FOR_EACH: Final = 100
"""A replay stops after STEPS. For each fact, and each member in a real rebalance, this many steps are added."""
_DURING: Final = 1
"""The rank of what members do by themselves."""
_NEVER_LOOK_MS: Final = 2**53


class EndlessRebalances(Exception):
    """A group that rebalances without end. The text says so."""


class Made(NamedTuple):
    """A generation that a replay made."""

    number: int
    start_ms: int
    shares: Mapping[str, Owned]


class Outcome(NamedTuple):
    """The result of a replay."""

    generations: list[Made]
    figures: Figures


class Replay:
    """A schedule that is played once."""

    def __init__(self, schedule: Schedule, book: AssignmentBook) -> None:
        history = schedule.clients.history
        self.schedule, self.clients, self.book = schedule, schedule.clients, book
        self.group_id = history.group
        self.assignor = schedule.setting.assignor
        self.ms = history.start_ms
        self.now = Now(self.ms, self.ms)
        self.costs = Costs(schedule.wanted())
        self.generations: list[Made] = []
        self.rebalance_number = 0
        """The number of rebalances so far. Actions that were planned in an earlier rebalance are dropped."""
        self.real_round: RealRound | None = None
        """The real rebalance that is being replayed. It is None if no real rebalance began at this time."""
        self.counts: dict[str, Topic] = {}
        self.counts_id: tuple[tuple[str, int], ...] = ()
        self.actors: list[Actor] = [Actor(self, part) for part in schedule.parts]
        self.by_member: dict[str, Actor] = {}
        settings = GroupSettings(
            group_min_session_timeout_ms=1,
            group_max_session_timeout_ms=2**31 - 1,
            group_initial_rebalance_delay_ms=schedule.initial_delay_ms,
            group_max_size=history.max_size,
            offsets_retention_check_interval_ms=_NEVER_LOOK_MS,
        )
        self.core = GroupCore(settings, NO_TOPICS)
        self._queue: list[tuple[int, int, int, Callable[..., None], tuple[Any, ...]]] = []
        self._order = 0
        self._begin()

    def run(self) -> Outcome:
        """Play the schedule, from the first fact to the end of the history. Raises NoAssignment."""
        end_ms = self.clients.history.end_ms
        facts, queue, at, next_deadline = self.schedule.facts, self._queue, 0, self.core.next_deadline_ms
        left = STEPS + STEPS_FOR_EACH * (len(facts) + len(self.clients.history.rounds) * len(self.actors))
        while True:
            left -= 1
            if not left:
                raise EndlessRebalances("under these settings the group does not come to rest")
            fact = facts[at] if at < len(facts) else None
            ms, rank = (FAR, 0) if fact is None else fact[:2]
            queued = bool(queue) and (queue[0][0], queue[0][1]) < (ms, rank)
            if queued:
                ms = queue[0][0]
            due_ms = next_deadline()
            if due_ms is not None and due_ms <= ms:
                if due_ms > end_ms:
                    break
                self._move_to(due_ms)
                self._settle(self.core.advance(self.now))
                continue
            if ms > end_ms:
                break
            self._move_to(ms)
            if queued:
                _, _, _, act, what = heapq.heappop(queue)
                act(*what)
            elif fact is not None:
                at += 1
                _ACTS[fact.kind](self, fact)
        unassigned = sum(topic.partitions for topic in self.counts.values())
        figures = self.costs.figures(end_ms, unassigned=unassigned)
        return Outcome(self.generations, figures)

    def later(self, ms: int, act: Callable[..., None], *what: Any) -> None:
        """Call `act(*what)` at the time `ms`."""
        self._order += 1
        heapq.heappush(self._queue, (max(ms, self.ms), _DURING, self._order, act, what))

    def group(self) -> ClassicGroup | None:
        """The group, if it exists."""
        return classic_group(self.core.state, self.group_id)

    def send(self, command: Command) -> None:
        """Send a request to the core, and handle the core's output."""
        self._settle(self.core.handle(command, self.now))

    def _move_to(self, ms: int) -> None:
        if ms > self.ms:
            self.ms = ms
            self.now = Now(ms, ms)

    def _begin(self) -> None:
        history = self.clients.history
        given = history.given
        if history.counts:
            self._take_counts(history.counts[0][1])
        if given is None and not history.first_generation:
            return
        self.core.replay([initial_record(self, given)], self.now)
        if given is not None:
            self.core.loaded(self.now)
            shares = {self.by_member[name].name: share for name, share in given.shares.items()}
            self.costs.given(shares, cooperative=is_cooperative(given.protocol))
            for actor in self.by_member.values():
                actor.be_heard()

    # ---- the output of the core

    def _settle(self, output: Output) -> None:
        for event in output.events:
            handler = _HANDLERS.get(event.kind)
            if handler is not None:
                handler(self, event)
        for respond, response in output.replies:
            respond(response)

    def _rebalance_began(self, event: Event) -> None:
        ms = self.ms
        self.rebalance_number += 1
        self.costs.began(ms)
        self.real_round = self.clients.near(ms)
        group = self.group()
        if group is None or group.state != PREPARING:
            return  # one join was enough to complete the rebalance
        waits = event.facts["state"] == COMPLETING
        for member in group.members.values():
            if member.parked_join is None:
                actor = self.by_member[member.member_id]
                self.later(self.rejoin_ms(actor, waits), actor.rejoin, self.rebalance_number)

    @property
    def is_as_quick(self) -> bool:
        """Whether members notice a rebalance as soon as they really did."""
        return self.schedule.setting.heartbeat_interval_ms is None

    def rejoin_ms(self, actor: Actor, waits: bool) -> int:
        """When a member joins again. `waits`: whether it waits for an answer that makes it join."""
        ms, real_round = self.ms, self.real_round
        usual_ms = ms + (AT_ONCE_MS if waits else self._usual_ms(actor))
        if real_round is not None:
            joined_ms = real_round.joins.get(actor.process.index)
            if joined_ms is not None:
                usual_ms = ms + self._stretched(joined_ms - real_round.round.began_ms)
            elif self.is_as_quick and (
                real_round.round.outcome == FAILED
                or actor.stops_between(real_round.round.began_ms, real_round.round.ended_ms)
            ):
                # the member had not returned when the real rebalance ended
                usual_ms = max(usual_ms, real_round.round.ended_ms + 1)
        return max(actor.when_not_slow(usual_ms), ms)

    def _usual_ms(self, actor: Actor) -> int:
        """The usual time from the start of a rebalance until a member joins again."""
        took_ms = self.clients.reaction(actor.process, self.ms, self.rebalance_number)
        if took_ms is None:  # no member ever did: the time is anywhere between two heartbeats
            took_ms = (actor.process.index * 7_919 + self.rebalance_number * 104_729) % self.clients.heartbeat_ms
        return self._stretched(took_ms)

    def _stretched(self, took_ms: int) -> int:
        """The time until a member joins again, with the setting's heartbeat interval.

        Only the time until the member notices the rebalance is scaled to the interval.
        """
        interval_ms = self.schedule.setting.heartbeat_interval_ms
        if interval_ms is None:
            return took_ms
        usual_ms = self.clients.heartbeat_ms
        noticed_ms = min(took_ms, usual_ms)
        return noticed_ms * interval_ms // usual_ms + took_ms - noticed_ms

    def _rebalance_completed(self, event: Event) -> None:
        facts: dict[str, Any] = event.facts
        read = self.book.read
        shares = {one.member: read(one.assignment) for one in facts["members"]}
        names = {self.by_member[member_id].name: share for member_id, share in shares.items()}
        self.costs.completed(self.ms, names, cooperative=is_cooperative(facts["protocol"]))
        self.generations.append(Made(facts["generation"], self.ms, shares))

    def _replaced(self, event: Event) -> None:
        old = replaced(event, self.by_member, self.costs, self.ms)
        if old is not None:
            old.fenced()

    # ---- facts from outside of the group

    def _leave(self, fact: Fact) -> None:
        actor = self.actors[fact.who]
        member_id = actor.go()
        if member_id:
            request = LeaveGroupRequest(self.group_id, "", [MemberIdentity(member_id, None, None)])
            self.send(Command(request, ignore, actor.client))

    def _lead(self, _: Fact) -> None:
        group = self.group()
        if group is not None and group.state == STABLE and group.leader_id in self.by_member:
            self._again(self.by_member[group.leader_id], changed=False)

    def _again(self, actor: Actor, *, changed: bool) -> None:
        """Let a member join again by itself, unless the group waits for it anyway."""
        group = self.group()
        if group is None or actor.is_away or actor.member_id not in group.members:
            return
        actor.bump += changed
        if group.state != PREPARING or (changed and group.members[actor.member_id].parked_join is not None):
            actor.join()

    def _take_counts(self, counts: Mapping[str, int]) -> None:
        self.counts = {topic: Topic(count) for topic, count in counts.items()}
        self.counts_id = tuple(sorted(counts.items()))


_HANDLERS: Final[Mapping[str, Callable[[Replay, Event], None]]] = {
    events.REBALANCE_STARTED: Replay._rebalance_began,
    events.REBALANCE_COMPLETED: Replay._rebalance_completed,
    events.GROUP_EMPTIED: lambda replay, _: replay.costs.emptied(replay.ms),
    **dict.fromkeys(GONE, lambda replay, event: gone(event, replay.by_member, replay.costs, replay.ms)),
    events.MEMBER_REPLACED: Replay._replaced,
}
_ACTS: Final[Mapping[Act, Callable[[Replay, Fact], None]]] = {
    Act.ASK: lambda replay, fact: replay.actors[fact.who].ask(),
    Act.START: lambda replay, fact: replay.actors[fact.who].start(),
    Act.LEAVE: Replay._leave,
    Act.VANISH: lambda replay, fact: replay.actors[fact.who].fall_silent(),
    Act.BACK: lambda replay, fact: replay.actors[fact.who].resume(),
    Act.REJOIN: lambda replay, fact: replay._again(replay.actors[fact.who], changed=True),
    Act.LEAD: Replay._lead,
    Act.COUNTS: lambda replay, fact: replay._take_counts(fact.value or {}),
    Act.DELETE: lambda replay, _: replay.send(deletion(replay.group_id)),
}
