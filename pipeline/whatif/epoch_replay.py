"""A group's schedule, played on a new core as a KIP-848 group, with model members that act like real clients.

`epoch_member` has the members. The server assigns the partitions, and nobody waits for a join phase.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Mapping
from hashlib import md5
from typing import Any, Final

from muster.coordinator.groups.common import events
from muster.coordinator.groups.common.events import Event
from muster.coordinator.groups.common.image import NO_TOPICS, TopicImage, TopicsChanged, TopicsImage
from muster.coordinator.groups.common.settings import GroupSettings
from muster.coordinator.groups.common.topic_hashes import hash_of_topics
from muster.coordinator.groups.consumer import records
from muster.coordinator.groups.consumer.commands import ConsumerHeartbeatCommand
from muster.coordinator.groups.consumer.group import ConsumerGroup, consumer_group
from muster.coordinator.groups.consumer.member import (
    NOTHING,
    STABLE,
    Description,
    Position,
    current_assignment,
    target_assignment,
)
from muster.coordinator.groups.core import GroupCore
from muster.coordinator.state_machine.interface import Command, Now
from muster.coordinator.state_machine.output import Output
from muster.pipeline.defaults import EPOCH_HEARTBEAT_MS
from muster.pipeline.whatif.costs import EpochCosts
from muster.pipeline.whatif.epoch_member import EpochActor
from muster.pipeline.whatif.history import FAR, Generation, Owned
from muster.pipeline.whatif.leader import NoAssignment
from muster.pipeline.whatif.replay import (
    GONE,
    STEPS,
    STEPS_FOR_EACH,
    EndlessRebalances,
    Made,
    Outcome,
    deletion,
    gone,
    replaced,
)
from muster.pipeline.whatif.schedule import Act, Fact, Schedule
from muster.pipeline.whatif.settings import ON_THE_SERVER
from muster.protocol.messages.group_records.consumer_group_current_member_assignment import (
    ConsumerGroupCurrentMemberAssignmentKey,
)

_DURING: Final = 1
_NEVER_LOOK_MS: Final = 2**53
_BEATS: Final = 40
"""The number of heartbeats that a member may need for each fact."""


class EpochReplay:
    """A schedule that is played once. Raises NoAssignment for a strategy that no server has."""

    def __init__(self, schedule: Schedule) -> None:
        history, setting = schedule.clients.history, schedule.setting
        assignor = setting.assignor or history.assignor or ON_THE_SERVER[0]
        if assignor not in ON_THE_SERVER:
            raise NoAssignment(f"in a KIP-848 group the server assigns, by uniform or range, not by {assignor}")
        self.schedule, self.clients = schedule, schedule.clients
        self.group_id = history.group
        self.ms = history.start_ms
        self.interval_ms = setting.heartbeat_interval_ms or EPOCH_HEARTBEAT_MS
        self.is_as_it_was = setting.heartbeat_interval_ms is None
        self.session_ms = setting.session_timeout_ms or history.session_ms
        self.costs = EpochCosts(schedule.wanted())
        self.generations: list[Made] = []
        self.by_member: dict[str, EpochActor] = {}
        self.actors: list[EpochActor] = [EpochActor(self, part) for part in schedule.parts]
        settings = GroupSettings(
            group_consumer_session_timeout_ms=self.session_ms,
            group_consumer_heartbeat_interval_ms=self.interval_ms,
            group_consumer_assignors=(assignor,),
            offsets_retention_check_interval_ms=_NEVER_LOOK_MS,
        )
        self.core = GroupCore(settings, NO_TOPICS)
        self._image = NO_TOPICS
        self._queue: list[tuple[int, int, int, Callable[..., None], tuple[Any, ...]]] = []
        self._order = 0
        if history.counts:
            self._take_counts(history.counts[0][1])
        if history.given is not None:
            self._begin(history.given)

    def run(self) -> Outcome:
        """Play the schedule, from the first fact to the end of the history."""
        end_ms = self.clients.history.end_ms
        facts, queue, at = self.schedule.facts, self._queue, 0
        members = max(len(self.actors), 1)
        left = STEPS + (STEPS_FOR_EACH + _BEATS * members) * (len(facts) + 1)
        while True:
            left -= 1
            if not left:
                raise EndlessRebalances("under these settings the group does not come to rest")
            fact = facts[at] if at < len(facts) else None
            ms, rank = (FAR, 0) if fact is None else fact[:2]
            queued = bool(queue) and (queue[0][0], queue[0][1]) < (ms, rank)
            if queued:
                ms = queue[0][0]
            due_ms = self.core.next_deadline_ms()
            if min(ms, FAR if due_ms is None else due_ms) > end_ms:
                break
            if due_ms is not None and due_ms <= ms:
                self.ms = max(self.ms, due_ms)
                self._settle(self.core.advance(self._now()))
                continue
            self.ms = max(self.ms, ms)
            if queued:
                *_, act, what = heapq.heappop(queue)
                act(*what)
            elif fact is not None:
                at += 1
                _ACTS[fact.kind](self, fact)
        return Outcome(self.generations, self.costs.figures(end_ms))

    def later(self, ms: int, act: Callable[..., None], *what: Any) -> None:
        """Call `act(*what)` at the time `ms`."""
        self._order += 1
        heapq.heappush(self._queue, (max(ms, self.ms), _DURING, self._order, act, what))

    def group(self) -> ConsumerGroup | None:
        """The group, if it exists."""
        return consumer_group(self.core.state, self.group_id)

    def send(self, command: ConsumerHeartbeatCommand | Command) -> None:
        """Send a request to the core, and handle the core's output."""
        self._settle(self.core.handle(command, self._now()))

    def _now(self) -> Now:
        return Now(self.ms, self.ms)

    def _begin(self, given: Generation) -> None:
        """Load the group as it is when the history begins: each member has its assignment."""
        group_id, epoch, made = self.group_id, max(given.number, 1), []
        ids = {name: topic.topic_id for name, topic in self._image.by_name.items()}
        for member_id, share in given.shares.items():
            part = self.actors[self.clients.by_member[member_id].index].part
            owned = {ids[topic]: set(numbers) for topic, numbers in share.items() if numbers and topic in ids}
            self.actors[part.process.index].set_member(member_id, epoch, owned)
            offers = part.process.offers(self.ms)
            stay = part.process.stays[0]
            topics = tuple(sorted(set(offers[0].topics))) if offers else ()
            said = Description(
                part.instance_id, None, stay.client_id, stay.host, topics, None, part.rebalance_timeout_ms, None, None
            )
            held = current_assignment({topic_id: dict.fromkeys(its, epoch) for topic_id, its in owned.items()})
            made += [
                records.member_metadata(group_id, member_id, said),
                records.target(group_id, member_id, target_assignment(owned)),
                records.current(group_id, member_id, Position(epoch, epoch, STABLE, held, NOTHING)),
            ]
        names = {name for actor in self.by_member.values() for name in actor.wanted()}
        made.append(records.group_epoch(group_id, epoch, hash_of_topics(names, self._image)))
        made.append(records.target_epoch(group_id, epoch, 0))
        self.core.replay([(one.key, one.value) for one in made], self._now())
        self.core.loaded(self._now())
        self.costs.given({self.by_member[name].name: share for name, share in given.shares.items()})
        for actor in self.by_member.values():
            actor.be_heard(FAR)

    # ---- the output of the core

    def _settle(self, output: Output) -> None:
        for event in output.events:
            handler = _HANDLERS.get(event.kind)
            if handler is not None:
                handler(self, event)
        for record in output.records:
            key, value = record.key, record.value
            if isinstance(key, ConsumerGroupCurrentMemberAssignmentKey) and value is not None:
                self._has(key.member_id, value)
        group = self.group()
        if group is not None and group.members and group.reconciliation is None and output.records:
            self.costs.settled()
        for respond, response in output.replies:
            respond(response)

    def _has(self, member_id: str, value: Any) -> None:
        by_id = self._image.by_id
        places = frozenset(
            (by_id[row.topic_id].name, number)
            for row in value.assigned_partitions
            for number in row.partitions
            if row.topic_id in by_id
        )
        actor = self.by_member.get(member_id)
        if actor is not None:
            self.costs.has(actor.name, places, self.ms)

    def _bumped(self, event: Event) -> None:
        if not event.facts["members"]:
            self.costs.emptied(self.ms)
        for actor in self.by_member.values():
            actor.beat_soon()

    def _reconciled(self, event: Event) -> None:
        group = self.group()
        assert group is not None
        by_id = self._image.by_id
        shares: dict[str, Owned] = {
            name: {by_id[row[0]].name: row[1] for row in member.position.assigned if row[0] in by_id}
            for name, member in group.members.items()
        }
        epoch: Any = event.facts["epoch"]
        self.generations.append(Made(epoch, self.ms, shares))

    def _replaced(self, event: Event) -> None:
        replaced(event, self.by_member, self.costs, self.ms)

    # ---- facts from outside of the group

    def _take_counts(self, counts: Mapping[str, int]) -> None:
        by_name = self._image.by_name
        topics = {
            name: by_name[name] if name in by_name and by_name[name].partitions == count else _topic(name, count)
            for name, count in counts.items()
        }
        self._image = TopicsImage(topics, self._image.version + 1)
        self._settle(self.core.handle(TopicsChanged(self._image), self._now()))
        for actor in self.by_member.values():
            actor.beat_soon()


def _topic(name: str, partitions: int) -> TopicImage:
    return TopicImage(name, md5(name.encode("utf-8", "surrogatepass"), usedforsecurity=False).digest(), partitions)


_HANDLERS: Final[Mapping[str, Callable[[EpochReplay, Event], None]]] = {
    events.EPOCH_BUMPED: EpochReplay._bumped,
    events.TARGET_ASSIGNED: lambda replay, _: replay.costs.target(),
    events.EPOCH_RECONCILED: EpochReplay._reconciled,
    **dict.fromkeys(GONE, lambda replay, event: gone(event, replay.by_member, replay.costs, replay.ms)),
    events.MEMBER_REPLACED: EpochReplay._replaced,
}
_ACTS: Final[Mapping[Act, Callable[[EpochReplay, Fact], None]]] = {
    Act.ASK: lambda _replay, _fact: None,  # the clients draw the ids
    Act.START: lambda replay, fact: replay.actors[fact.who].start(),
    Act.LEAVE: lambda replay, fact: replay.actors[fact.who].leave(),
    Act.VANISH: lambda replay, fact: replay.actors[fact.who].fall_silent(),
    Act.BACK: lambda replay, fact: replay.actors[fact.who].resume(),
    Act.REJOIN: lambda replay, fact: replay.actors[fact.who].resubscribe(),
    Act.LEAD: lambda _replay, _fact: None,  # a KIP-848 group has no leader
    Act.COUNTS: lambda replay, fact: replay._take_counts(fact.value or {}),
    Act.DELETE: lambda replay, _: replay.send(deletion(replay.group_id)),
}
