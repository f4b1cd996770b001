"""A model member of a KIP-848 group in a replay. It does what a client library does between the facts of its schedule.

It sends a heartbeat at once when it joins, leaves, has revoked partitions, or changes its subscription. Otherwise it
sends one each heartbeat interval. Heartbeats of a group at rest change nothing, so only the other heartbeats are
played.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable
from typing import Any, Final, Protocol

from muster.coordinator.groups.consumer.commands import ConsumerHeartbeatCommand
from muster.coordinator.groups.consumer.group import ConsumerGroup
from muster.coordinator.groups.consumer.member import LEAVE_GROUP_MEMBER_EPOCH, LEAVE_GROUP_STATIC_MEMBER_EPOCH
from muster.coordinator.groups.core import GroupCore
from muster.coordinator.state_machine.interface import Client
from muster.pipeline.whatif.costs import EpochCosts
from muster.pipeline.whatif.history import FAR
from muster.pipeline.whatif.processes import SILENT, SLOW, Clients
from muster.pipeline.whatif.schedule import Part
from muster.protocol.errors import ErrorCode
from muster.protocol.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatRequestTopicPartitions,
)

REVOKE_MS: Final = 100
"""The time from the request to revoke partitions until they are revoked: the next poll, a commit, and the heartbeat."""
_SOON_MS: Final = 1_000
"""A real heartbeat within this time after the request to revoke partitions reports that the member revoked them."""
_HELD: Final = frozenset({ErrorCode.UNRELEASED_INSTANCE_ID})
_LOST: Final = frozenset({ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.FENCED_MEMBER_EPOCH, ErrorCode.GROUP_ID_NOT_FOUND})


class EpochReplayView(Protocol):
    """What a member reads and changes of its replay (`epoch_replay.EpochReplay`)."""

    ms: int
    group_id: str
    interval_ms: int
    session_ms: int
    clients: Clients
    is_as_it_was: bool
    """Whether members send heartbeats as often as they really did."""
    costs: EpochCosts
    core: GroupCore
    by_member: dict[str, EpochActor]

    def group(self) -> ConsumerGroup | None:
        """The group, if it exists."""

    def send(self, command: ConsumerHeartbeatCommand) -> None:
        """Send a request to the core."""

    def later(self, ms: int, act: Callable[..., None], *what: Any) -> None:
        """Call `act(*what)` at the time `ms`."""


class EpochActor:
    """One process of a schedule, as a member of the group."""

    __slots__ = (
        "_asked_ms",
        "_beats",
        "_epoch",
        "_is_beating",
        "_life",
        "_number",
        "_owned",
        "_replay",
        "_topics",
        "client",
        "is_away",
        "member_id",
        "name",
        "part",
    )  # fmt: skip

    def __init__(self, replay: EpochReplayView, part: Part) -> None:
        self._replay = replay
        self.part = part
        self.client = Client(part.process.stays[0].client_id, part.process.stays[0].host)
        self.member_id = ""
        self.name = part.process.slot if part.instance_id is not None else ""
        """The owner's name for the costs. A static member keeps its name when it returns."""
        self.is_away = False
        self._epoch = 0
        self._owned: dict[bytes, set[int]] = {}
        self._topics: tuple[str, ...] = ()
        self._number = 0
        self._asked_ms = replay.ms + part.process.index * 7_919 % replay.interval_ms
        """The time of the member's last heartbeat. It may differ by whole intervals."""
        beats = replay.clients.history.beats if replay.is_as_it_was else {}
        self._beats = sorted(ms for stay in part.process.stays for ms in beats.get(stay.member_id, ()))
        """The times of the member's real heartbeats: those that changed something."""
        self._is_beating = False
        self._life = 0
        """The number of starts and stops so far. Actions that were planned before the last one are dropped."""

    # ---- joining and leaving

    def start(self) -> None:
        """Join as a new member."""
        self.is_away = False
        self._life += 1
        self.member_id = self._new_id()
        if self.part.instance_id is None:
            self.name = self.member_id
        self._join()

    def set_member(self, member_id: str, epoch: int, owned: dict[bytes, set[int]]) -> None:
        """Become a member that was already in the group when the history began."""
        self.member_id, self._epoch, self._owned, self._number = member_id, epoch, owned, 1
        self._topics = self.wanted()
        if self.part.instance_id is None:
            self.name = member_id
        self._replay.by_member[member_id] = self

    def leave(self) -> None:
        """Stop, and leave the group."""
        self._stop(LEAVE_GROUP_MEMBER_EPOCH)

    def fall_silent(self) -> None:
        """Be silent from now on. A static member first announces that it will return."""
        replay = self._replay
        if self.member_id in replay.by_member:
            replay.costs.vanished(self.name, replay.ms)
        if self.part.instance_id is not None:
            self._stop(LEAVE_GROUP_STATIC_MEMBER_EPOCH)
        self.is_away = True
        self._life += 1

    def resume(self) -> None:
        """Continue after a silence, with the former state."""
        replay = self._replay
        if self.part.instance_id is not None or self.member_id not in replay.by_member:
            self.start()
            return
        self.is_away = False
        replay.costs.back(self.name, replay.ms)
        self._beat(say_owned=True)

    def resubscribe(self) -> None:
        """Send the changed subscription, if it has really changed."""
        if not self.is_away and self.member_id in self._replay.by_member and self.wanted() != self._topics:
            self._beat(say_owned=False)

    def _stop(self, epoch: int) -> None:
        replay = self._replay
        self.is_away = True
        self._life += 1
        if self.member_id in replay.by_member:
            self._send(ConsumerGroupHeartbeatRequest(replay.group_id, self.member_id, epoch, self.part.instance_id))
            self.be_heard(replay.ms)

    def _new_id(self) -> str:
        """The member's real id, or a new id if the process joins more often than it really did."""
        stays, number = self.part.process.stays, self._number
        self._number += 1
        return stays[number].member_id if number < len(stays) else f"{stays[0].member_id}.{number}"

    # ---- heartbeats

    def beat_soon(self) -> None:
        """Plan the next heartbeat."""
        if self._is_beating or self.is_away or not self.member_id:
            return
        replay = self._replay
        self._is_beating = True
        real_ms = self._really(replay.interval_ms)
        wait_ms = replay.interval_ms - (replay.ms - self._asked_ms) % replay.interval_ms
        replay.later(replay.ms + wait_ms if real_ms is None else real_ms, self._due, self._life)

    def _really(self, within_ms: int) -> int | None:
        """The time of the next real heartbeat, if it came within `within_ms`."""
        ms, at = self._replay.ms, bisect_right(self._beats, self._replay.ms)
        return self._beats[at] if at < len(self._beats) and self._beats[at] <= ms + within_ms else None

    def _due(self, life: int) -> None:
        self._is_beating = False
        if life == self._life and not self.is_away:
            if self.member_id in self._replay.by_member:
                self._beat(say_owned=False)
            else:
                self._join()

    def _join(self) -> None:
        replay = self._replay
        self._epoch, self._owned, self._topics = 0, {}, self.wanted()
        replay.by_member[self.member_id] = self
        request = ConsumerGroupHeartbeatRequest(
            replay.group_id, self.member_id, 0, self.part.instance_id, None, self.part.rebalance_timeout_ms,
            list(self._topics), None, None, [],
        )  # fmt: skip
        self._send(request)

    def _beat(self, *, say_owned: bool) -> None:
        replay = self._replay
        rows = [ConsumerGroupHeartbeatRequestTopicPartitions(one, sorted(its)) for one, its in self._owned.items()]
        wanted, names = self.wanted(), None
        if wanted != self._topics:
            self._topics, names = wanted, list(wanted)
        request = ConsumerGroupHeartbeatRequest(
            replay.group_id, self.member_id, self._epoch, self.part.instance_id, None, -1, names, None, None,
            rows if say_owned else None,
        )  # fmt: skip
        self._send(request)

    def _send(self, request: ConsumerGroupHeartbeatRequest) -> None:
        self._asked_ms = self._replay.ms
        self._replay.send(ConsumerHeartbeatCommand(request, self._answered, self.client))

    def _answered(self, response: Any) -> None:
        replay, error = self._replay, response.error_code
        if self.is_away:
            return
        if error:
            replay.by_member.pop(self.member_id, None)
            if error in _LOST:
                self._join()
            elif error in _HELD:
                self.beat_soon()
            return
        self._epoch = response.member_epoch
        self.be_heard(FAR)
        if response.assignment is not None:
            self._take({row.topic_id: set(row.partitions) for row in response.assignment.topic_partitions})
        group = replay.group()
        member = None if group is None else group.members.get(self.member_id)
        if (
            group is not None
            and member is not None
            and not self._is_at_rest(group, member.position.epoch, member.position.state)
        ):
            self.beat_soon()

    def _is_at_rest(self, group: ConsumerGroup, epoch: int, state: int) -> bool:
        return not state and epoch == group.assignment_epoch == group.epoch

    def _take(self, given: dict[bytes, set[int]]) -> None:
        lost = any(its - given.get(topic_id, set()) for topic_id, its in self._owned.items())
        if not lost:
            self._owned = given
            return
        kept = {topic_id: its & given.get(topic_id, set()) for topic_id, its in self._owned.items()}
        self._owned = {topic_id: its for topic_id, its in kept.items() if its}
        replay = self._replay
        real_ms = self._really(_SOON_MS)
        done_ms = replay.ms + REVOKE_MS if real_ms is None else real_ms
        replay.later(self._when_not_slow(done_ms), self._gave_up, self._life)

    def _gave_up(self, life: int) -> None:
        if life == self._life and self.member_id in self._replay.by_member:
            self._beat(say_owned=True)

    # ---- the facts of the member

    def wanted(self) -> tuple[str, ...]:
        """The names of the topics that the member subscribes to."""
        offers = self.part.process.offers(self._replay.ms)
        return tuple(sorted(set(offers[0].topics))) if offers else ()

    def _when_not_slow(self, ms: int) -> int:
        """The time `ms`; if the member does not poll then, the time at which it polls again."""
        for absence in self.part.absences:
            if absence.kind == SLOW and absence.from_ms <= ms < absence.until_ms:
                return absence.until_ms
        return ms

    def be_heard(self, until_ms: int) -> None:
        """Set in the core the time until which this member sends heartbeats."""
        replay = self._replay
        for absence in self.part.absences:
            if absence.kind == SILENT and absence.from_ms >= replay.ms:
                until_ms = min(until_ms, absence.from_ms)
                break
        group = replay.group()
        member = None if group is None else group.members.get(self.member_id)
        if member is not None:
            replay.core.state.deadlines.set(member, until_ms + replay.session_ms)
