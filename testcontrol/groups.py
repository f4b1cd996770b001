"""The verbs on groups: a test reads the groups of a running server, waits for them, and acts on them.

The verbs serve classic groups and groups of KIP-848. Call the verbs from the server's event loop only. This module
knows neither HTTP nor threads.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Any, Final, Literal

from muster.coordinator.groups.common import events
from muster.coordinator.groups.offsets.commit import CommitCommand
from muster.coordinator.history.timeline import Timeline
from muster.coordinator.server import Server, group_snapshots
from muster.coordinator.server.group_views import DEAD, GroupView, MemberView, Offsets, others
from muster.coordinator.state_machine.interface import Client
from muster.protocol.errors import error_name
from muster.protocol.message import Message
from muster.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from muster.testcontrol import checks, group_actions, waits
from muster.testcontrol.errors import CannotBeDone, WaitFailed
from muster.testcontrol.interceptors import HeldJoins
from muster.testcontrol.topics import topic_of
from muster.testcontrol.waits import TimeIsOver, next_iteration, until

DEFAULT_TIMEOUT_S: Final = 10.0
"""The default limit of a wait."""
NEWEST_COMMIT: Final = 10
"""The version of OffsetCommit in which a reset is written."""
MAX_LINES: Final = 60
"""The most lines of a timeline in the text of a failed wait."""

Topics = str | Iterable[str] | None
"""One topic by name, several, or None for no topic in particular."""
Reset = Literal["earliest", "latest"] | int | Mapping[tuple[str, int], int]
"""The place to which offsets are reset: a name, one offset for each partition, or offsets by topic and partition."""


class Groups:
    """See the module."""

    def __init__(self, server: Server, joins: HeldJoins) -> None:
        """`joins`: the server was given the interceptor of `joins`."""
        self._server = server
        self._joins = joins
        self.interventions: Callable[[], list[str]] = list
        """The interventions of the test, in words."""

    # ---- reading

    def ids(self) -> list[str]:
        """The ids of all groups, ascending."""
        return group_snapshots.group_ids(self._server)

    def describe(self, group_id: str) -> GroupView:
        """The group as it is now. The state of a group that does not exist is Dead."""
        return group_snapshots.describe(self._server, group_id)

    async def events(self, group_id: str) -> list[dict[str, Any]]:
        """The events of the group, as in `__group_events` (docs/events.md)."""
        await next_iteration()  # events of this iteration of the event loop are written at its end
        found: list[dict[str, Any]] = []
        for some in group_snapshots.events(self._server, group_id):
            found += some
            await next_iteration()
        return found

    async def history(self, group_id: str, *, everything: bool = False) -> list[str]:
        """The events in words, a line for each. `everything`: also events that the line of a rebalance covers."""
        timeline = Timeline(dates=False, everything=everything)
        return [line for value in await self.events(group_id) for line in timeline.feed(value)]

    # ---- waiting

    async def wait_stable(
        self,
        group_id: str,
        *,
        members: int | None = None,
        partitions: Topics = None,
        timeout_s: float = DEFAULT_TIMEOUT_S,
    ) -> GroupView:
        """Wait until the group has `members` members with their targets, and all partitions of these topics have an
        owner. Returns the group as it was then. Raises WaitFailed.
        """
        condition = waits.stable(self._server, members, checks.texts("topics", partitions))
        return await self._wait(group_id, condition, timeout_s)

    async def wait_until(
        self,
        group_id: str,
        predicate: Callable[[GroupView], object],
        *,
        what: str = "a condition of the test",
        topics: Topics = None,
        timeout_s: float = DEFAULT_TIMEOUT_S,
    ) -> GroupView:
        """Wait until `predicate(group)` is true. `predicate` is called whenever something has happened to the group, or
        `topics` have new records. Returns the group as it was then. Raises WaitFailed, and what the predicate raises.
        """
        checks.function("predicate", predicate)
        condition = waits.Condition(checks.text("what", what), predicate, checks.texts("topics", topics))
        return await self._wait(group_id, condition, timeout_s)

    async def wait_consumed(
        self,
        group_id: str,
        topics: Topics = None,
        *,
        up_to: Mapping[tuple[str, int], int] | None = None,
        timeout_s: float = DEFAULT_TIMEOUT_S,
    ) -> GroupView:
        """Wait until the group has committed all present records of these topics, or these offsets. Without topics, the
        wait covers all topics that the group owns, subscribes to or has committed to. Raises WaitFailed.
        """
        condition = waits.consumed(self._server, checks.texts("topics", topics), up_to, lambda: self.describe(group_id))
        return await self._wait(group_id, condition, timeout_s)

    async def wait_held(self, group_id: str, count: int, *, timeout_s: float = DEFAULT_TIMEOUT_S) -> GroupView:
        """Wait until `count` joins of the group are held. Raises WaitFailed."""
        checks.whole("joins", count)
        condition = waits.Condition(f"{count} joins are held", lambda _: self._joins.waiting(group_id) >= count)
        return await self._wait(group_id, condition, timeout_s)

    async def _wait(self, group_id: str, condition: waits.Condition, timeout_s: float) -> GroupView:
        checks.seconds("timeout", timeout_s)

        def check() -> GroupView | None:
            group = self.describe(group_id)
            return group if condition.holds(group) else None

        try:
            also = self._joins.when_changed
            return await until(self._server, group_id, check, timeout_s, topics=condition.topics, also=also)
        except TimeIsOver:
            raise await self.failed(group_id, condition.what, timeout_s) from None

    async def failed(self, group_id: str, waited_for: str, timeout_s: float) -> WaitFailed:
        """The error for a wait whose condition did not become true: with the group as it is, and its history."""
        lines = await self.history(group_id, everything=True)
        left_out = len(lines) - MAX_LINES
        if left_out > 0:
            lines = [f"({left_out} lines before)", *lines[-MAX_LINES:]]
        group = self.describe(group_id)
        now = str(group)
        if group.state == DEAD:
            now += f"\n  {others(self.ids())}"
        held = self._joins.waiting(group_id)
        if held:
            now += f"\n  {held} joins are held back"
        return WaitFailed(group_id, waited_for, timeout_s, now, lines, self.interventions())

    # ---- acting

    def rebalance(self, group_id: str) -> None:
        """Force a rebalance. Raises CannotBeDone: the group has no members, or a rebalance is in progress."""
        group_actions.run(self._shard(group_id), group_id, group_actions.rebalanced)

    def expire(self, group_id: str, member: str) -> None:
        """End the session of a member at once, as if the member had been silent for its session timeout. `member`: the
        member's id, instance id or client id. Raises CannotBeDone.
        """
        self._remove(group_id, member, events.SESSION_EXPIRED)

    def remove(self, group_id: str, member: str) -> None:
        """Remove a member as an administrator does. Raises CannotBeDone."""
        self._remove(group_id, member, events.LEFT)

    def _remove(self, group_id: str, member: str, cause: str) -> None:
        member_id = self._member(group_id, member).member_id
        action = partial(group_actions.remove, member_id=member_id, cause=cause)
        group_actions.run(self._shard(group_id), group_id, action)

    async def reset_offsets(self, group_id: str, to: Reset, topics: Topics = None) -> Offsets:
        """Set committed offsets, and return them. Without topics, `to` decides: the partitions of a mapping, else all
        topics that the group has committed to. Raises CannotBeDone if the group has members (Kafka allows none), or a
        topic does not exist. Raises WrongValue.
        """
        to, names = checks.reset(to), checks.texts("topics", topics)
        group = self.describe(group_id)
        if group.members:
            raise CannotBeDone(f"group {group_id} has members: stop its consumers before its offsets are reset")
        wanted = self._wanted(to, names or tuple(group.offsets))
        rows = []
        for name, offsets in wanted.items():
            partitions = [OffsetCommitRequestPartition(*row) for row in sorted(offsets.items())]
            topic_id = topic_of(self._server, name).topic_id
            rows.append(OffsetCommitRequestTopic(name, topic_id=topic_id, partitions=partitions))
        answer = await self._submit(group_id, OffsetCommitRequest(group_id, topics=rows))
        for topic in answer.topics:
            for one in topic.partitions:
                if one.error_code:
                    raise CannotBeDone(
                        f"the offset of {topic.name}-{one.partition_index} was refused: {error_name(one.error_code)}"
                    )
        return wanted

    def hold_joins(self, group_id: str) -> None:
        """From now on, hold the joins of the group until `release`."""
        self._joins.hold(group_id)

    def release(self, group_id: str) -> int:
        """Let held joins and later joins proceed; return how many were held."""
        return self._joins.release(group_id)

    # ---- finding

    def _shard(self, group_id: str) -> Any:
        found = group_snapshots.shard_of(self._server, group_id)
        if found is None:
            raise CannotBeDone(f"nobody coordinates group {group_id} now")
        return found[1]

    def _member(self, group_id: str, name: str) -> MemberView:
        group = self.describe(group_id)
        member = group.member(name)
        if member is None:
            raise CannotBeDone(f"there is no member {name!r}, or more than one of that name:\n{group}")
        return member

    def _wanted(self, to: Reset, names: Iterable[str]) -> dict[str, dict[int, int]]:
        wanted: dict[str, dict[int, int]] = {}
        if isinstance(to, Mapping):
            for (topic, index), offset in to.items():
                if not 0 <= index < len(topic_of(self._server, topic).partitions):
                    raise CannotBeDone(f"there is no partition {topic}-{index}")
                wanted.setdefault(topic, {})[index] = offset
            return wanted
        for name in names:
            for index, partition in enumerate(topic_of(self._server, name).partitions):
                if partition is None:
                    raise CannotBeDone(f"{name}-{index} is offline")
                if to == "earliest":
                    offset = partition.log.start_offset
                else:
                    offset = partition.log.durable_offset if to == "latest" else int(to)
                wanted.setdefault(name, {})[index] = offset
        if not wanted:
            raise CannotBeDone("name the topics whose offsets are to be reset")
        return wanted

    async def _submit(self, group_id: str, request: OffsetCommitRequest) -> Any:
        answered: asyncio.Future[Message] = asyncio.get_running_loop().create_future()
        client = Client("muster-testcontrol", "/127.0.0.1")
        command = CommitCommand(request, answered.set_result, client, NEWEST_COMMIT)
        self._shard(group_id).runtime.submit(command)
        return await answered
