"""A model member of a KIP-848 group in a replay: what a client library does between scheduled facts.

It sends a heartbeat at once when it joins, leaves, has revoked partitions, or changes its subscription. Otherwise it
sends one each heartbeat interval. Heartbeats of a group at rest change nothing, so only the others are played.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable
from typing import Any, Final, Protocol

from muster.coordinator.groups.consumer.commands import ConsumerHeartbeatCommand
from muster.coordinator.groups.consumer.group import ConsumerGroup
from muster.coordinator.groups.consumer.member import AWAY, LEAVING
from muster.coordinator.groups.core import GroupCore
from muster.coordinator.state_machine.interface import Client
from muster.pipeline.whatif.costs import EpochCosts
from muster.pipeline.whatif.history import FAR
from muster.pipeline.whatif.processes import SILENT, SLOW, Cast
from muster.pipeline.whatif.schedule import Part
from muster.protocol.errors import ErrorCode
from muster.protocol.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatRequestTopicPartitions,
)

REVOKE_MS: Final = 100
"""From the request to give partitions up until that is done: the next poll, a commit, and the heartbeat."""
_SOON_MS: Final = 1_000
"""A heartbeat so soon after the request to give partitions up says that the member did."""
_HELD: Final = frozenset({ErrorCode.UNRELEASED_INSTANCE_ID})
_LOST: Final = frozenset({ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.FENCED_MEMBER_EPOCH, ErrorCode.GROUP_ID_NOT_FOUND})


class Stage(Protocol):
    """What a member knows and changes of its replay (`epoch_replay.EpochReplay`)."""

    ms: int
    group_id: str
    interval_ms: int
    session_ms: int
    cast: Cast
    is_as_it_was: bool
    """Whether heartbeats come as often as they really did."""
    costs: EpochCosts
    core: GroupCore
    by_member: dict[str, EpochActor]

    def group(self) -> ConsumerGroup | None:
        """The group, if it exists."""

    def send(self, command: ConsumerHeartbeatCommand) -> None:
        """Send a request to the core."""

    def later(self, ms: int, act: Callable[..., None], *what: Any) -> None:
        """Call `act(*what)` at a time."""


class EpochActor:
    """One process of a schedule as a member."""

    __slots__ = ("_asked_ms", "_beats", "_epoch", "_is_beating", "_number", "_owned", "_stage", "_topics", "_turn",
                 "client", "is_away", "member_id", "name", "part")  # fmt: skip

    def __init__(self, stage: Stage, part: Part) -> None:
        self._stage = stage
        self.part = part
        self.client = Client(part.process.spells[0].client_id, part.process.spells[0].host)
        self.member_id = ""
        self.name = part.process.slot if part.instance_id is not None else ""
        """The owner's name, for the costs: a static member that returns is the same one."""
        self.is_away = False
        self._epoch = 0
        self._owned: dict[bytes, set[int]] = {}
        self._topics: tuple[str, ...] = ()
        self._number = 0
        self._asked_ms = stage.ms + part.process.index * 7_919 % stage.interval_ms
        """When it sent its last heartbeat, give or take whole intervals."""
        beats = stage.cast.history.beats if stage.is_as_it_was else {}
        self._beats = sorted(ms for spell in part.process.spells for ms in beats.get(spell.member_id, ()))
        """When its real heartbeats came: those that changed something."""
        self._is_beating = False
        self._turn = 0
        """Counts its starts: what an earlier life has begun is dropped."""

    # ---- joining and leaving

    def start(self) -> None:
        """It joins, as a member that was never there."""
        self.is_away = False
        self._turn += 1
        self.member_id = self._new_id()
        if self.part.instance_id is None:
            self.name = self.member_id
        self._join()

    def is_there(self, member_id: str, epoch: int, owned: dict[bytes, set[int]]) -> None:
        """It is a member already."""
        self.member_id, self._epoch, self._owned, self._number = member_id, epoch, owned, 1
        self._topics = self.wanted()
        if self.part.instance_id is None:
            self.name = member_id
        self._stage.by_member[member_id] = self

    def leave(self) -> None:
        """It stops, and leaves the group."""
        self._stop(LEAVING)

    def vanish(self) -> None:
        """It is silent from now on. A static member announces that it will return."""
        stage = self._stage
        if self.member_id in stage.by_member:
            stage.costs.vanished(self.name, stage.ms)
        if self.part.instance_id is not None:
            self._stop(AWAY)
        self.is_away = True
        self._turn += 1

    def come_back(self) -> None:
        """It continues with its former state."""
        stage = self._stage
        if self.part.instance_id is not None or self.member_id not in stage.by_member:
            self.start()
            return
        self.is_away = False
        stage.costs.back(self.name, stage.ms)
        self._beat(say_owned=True)

    def changes_its_mind(self) -> None:
        """It changes its subscription, or joins again to no purpose."""
        if not self.is_away and self.member_id in self._stage.by_member and self.wanted() != self._topics:
            self._beat(say_owned=False)

    def _stop(self, epoch: int) -> None:
        stage = self._stage
        self.is_away = True
        self._turn += 1
        if self.member_id in stage.by_member:
            self._send(ConsumerGroupHeartbeatRequest(stage.group_id, self.member_id, epoch, self.part.instance_id))
            self.be_heard(stage.ms)

    def _new_id(self) -> str:
        """Its real member id, or a new one if it joins more often than it really did."""
        spells, number = self.part.process.spells, self._number
        self._number += 1
        return spells[number].member_id if number < len(spells) else f"{spells[0].member_id}.{number}"

    # ---- heartbeats

    def beat_soon(self) -> None:
        """Play its next heartbeat."""
        if self._is_beating or self.is_away or not self.member_id:
            return
        stage = self._stage
        self._is_beating = True
        real_ms = self._really(stage.interval_ms)
        wait_ms = stage.interval_ms - (stage.ms - self._asked_ms) % stage.interval_ms
        stage.later(stage.ms + wait_ms if real_ms is None else real_ms, self._due, self._turn)

    def _really(self, within_ms: int) -> int | None:
        """When its next heartbeat really came, if that was so soon."""
        ms, at = self._stage.ms, bisect_right(self._beats, self._stage.ms)
        return self._beats[at] if at < len(self._beats) and self._beats[at] <= ms + within_ms else None

    def _due(self, turn: int) -> None:
        self._is_beating = False
        if turn == self._turn and not self.is_away:
            if self.member_id in self._stage.by_member:
                self._beat(say_owned=False)
            else:
                self._join()

    def _join(self) -> None:
        stage = self._stage
        self._epoch, self._owned, self._topics = 0, {}, self.wanted()
        stage.by_member[self.member_id] = self
        request = ConsumerGroupHeartbeatRequest(
            stage.group_id, self.member_id, 0, self.part.instance_id, None, self.part.rebalance_timeout_ms,
            list(self._topics), None, None, [],
        )  # fmt: skip
        self._send(request)

    def _beat(self, *, say_owned: bool) -> None:
        stage = self._stage
        rows = [ConsumerGroupHeartbeatRequestTopicPartitions(one, sorted(its)) for one, its in self._owned.items()]
        wanted, names = self.wanted(), None
        if wanted != self._topics:
            self._topics, names = wanted, list(wanted)
        request = ConsumerGroupHeartbeatRequest(
            stage.group_id, self.member_id, self._epoch, self.part.instance_id, None, -1, names, None, None,
            rows if say_owned else None,
        )  # fmt: skip
        self._send(request)

    def _send(self, request: ConsumerGroupHeartbeatRequest) -> None:
        self._asked_ms = self._stage.ms
        self._stage.send(ConsumerHeartbeatCommand(request, self._answered, self.client))

    def _answered(self, response: Any) -> None:
        stage, error = self._stage, response.error_code
        if self.is_away:
            return
        if error:
            stage.by_member.pop(self.member_id, None)
            if error in _LOST:
                self._join()
            elif error in _HELD:
                self.beat_soon()
            return
        self._epoch = response.member_epoch
        self.be_heard(FAR)
        if response.assignment is not None:
            self._take({row.topic_id: set(row.partitions) for row in response.assignment.topic_partitions})
        group = stage.group()
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
        stage = self._stage
        real_ms = self._really(_SOON_MS)
        done_ms = stage.ms + REVOKE_MS if real_ms is None else real_ms
        stage.later(self._when_not_slow(done_ms), self._gave_up, self._turn)

    def _gave_up(self, turn: int) -> None:
        if turn == self._turn and self.member_id in self._stage.by_member:
            self._beat(say_owned=True)

    # ---- its facts

    def wanted(self) -> tuple[str, ...]:
        """The topics that it subscribes to."""
        offers = self.part.process.offers(self._stage.ms)
        return tuple(sorted(set(offers[0].topics))) if offers else ()

    def _when_not_slow(self, ms: int) -> int:
        """That time, or when it polls again if it does not poll then."""
        for absence in self.part.absences:
            if absence.kind == SLOW and absence.from_ms <= ms < absence.until_ms:
                return absence.until_ms
        return ms

    def be_heard(self, until_ms: int) -> None:
        """Set in the core until when this member will send heartbeats."""
        stage = self._stage
        for absence in self.part.absences:
            if absence.kind == SILENT and absence.from_ms >= stage.ms:
                until_ms = min(until_ms, absence.from_ms)
                break
        group = stage.group()
        member = None if group is None else group.members.get(self.member_id)
        if member is not None:
            stage.core.state.deadlines.set(member, until_ms + stage.session_ms)
