"""Topics, groups and nodes of a server, for asynchronous tests: each verb is awaited."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Literal

from muster.testcontrol.checks import text
from muster.testcontrol.nodes import NodeView
from muster.testcontrol.topics import Record
from muster.testcontrol.views import GroupView, MemberView, Offsets
from muster.testing.loop_bridge import LoopBridge
from muster.testing.verbs import DEFAULT_TIMEOUT, Behind, Content, Topics, name_of, records

__tracebackhide__ = True
"""pytest shows the line of the test instead."""

Reset = Literal["earliest", "latest"] | int | Mapping[tuple[str, int], int]
"""The place to which offsets are reset: a name, one offset for each partition, or offsets by topic and partition."""


class AsyncTopic:
    """One topic by its name, whether it exists or not."""

    def __init__(self, portal: LoopBridge, behind: Behind, name: str) -> None:
        self.name = text("the name of a topic", name)
        self._portal = portal
        self._behind = behind

    def __repr__(self) -> str:
        return f"AsyncTopic({self.name!r})"

    async def create(self, partitions: int | None = None, *, configs: Mapping[str, object] | None = None) -> AsyncTopic:
        """Create it; `partitions` None: as `num.partitions` says. Raises CannotBeDone where Kafka would refuse."""
        await self._portal.awaited(lambda: self._behind().topics.create(self.name, partitions, configs))
        return self

    async def grow(self, partitions: int) -> None:
        """Set a higher number of partitions. Raises CannotBeDone."""
        await self._portal.awaited(lambda: self._behind().topics.grow(self.name, partitions))

    async def delete(self) -> None:
        """Delete it and all its records. Raises CannotBeDone."""
        await self._portal.awaited(lambda: self._behind().topics.delete(self.name))

    async def produce(
        self,
        *values: Content,
        key: Content = None,
        partition: int | None = None,
        headers: Mapping[str, Content] | None = None,
        timestamp_ms: int | None = None,
    ) -> list[tuple[int, int]]:
        """Append a record of each value, and return (partition, offset) of each. Then they can be read. `partition`
        None: chosen by the key as Kafka's clients do, or in rotation without a key. Raises CannotBeDone.
        """
        rows = records(values, key, partition, headers, timestamp_ms)
        found: list[tuple[int, int]] = await self._portal.awaited(
            lambda: self._behind().topics.produce(self.name, rows)
        )
        return found

    async def records(self, partition: int | None = None, *, since: int = 0, most: int = 10_000) -> list[Record]:
        """The records of the topic, or of one of its partitions, from an offset on. They are in the order of
        partitions, and at most `most` in all. Raises CannotBeDone.
        """
        found: list[Record] = await self._portal.awaited(
            lambda: self._behind().topics.records(self.name, partition, since=since, most=most)
        )
        return found

    async def end_offsets(self) -> dict[int, int]:
        """The offset of the next record of each partition. Raises CannotBeDone."""
        found: dict[int, int] = await self._portal.awaited(lambda: self._behind().topics.end_offsets(self.name))
        return found


class AsyncGroup:
    """One group by its id, whether it exists or not."""

    def __init__(self, portal: LoopBridge, behind: Behind, group_id: str) -> None:
        self.id = text("the id of a group", group_id)
        self._portal = portal
        self._behind = behind

    def __repr__(self) -> str:
        return f"AsyncGroup({self.id!r})"

    # ---- reading

    async def describe(self) -> GroupView:
        """The group as it is now, all of the same moment. The state of a group that does not exist is Dead."""
        found: GroupView = await self._portal.awaited(lambda: self._behind().groups.describe(self.id))
        return found

    async def events(self) -> list[dict[str, Any]]:
        """The events of the group, as in `__group_events` (docs/events.md)."""
        found: list[dict[str, Any]] = await self._portal.awaited(lambda: self._behind().groups.events(self.id))
        return found

    async def history(self, *, everything: bool = False) -> list[str]:
        """The events in words; `everything`: also events that the line of a rebalance covers."""
        found: list[str] = await self._portal.awaited(
            lambda: self._behind().groups.history(self.id, everything=everything)
        )
        return found

    # ---- waiting

    async def wait_stable(
        self, members: int | None = None, partitions: Topics = None, *, timeout: float = DEFAULT_TIMEOUT
    ) -> GroupView:
        """Wait until the group has (that many) members with their targets, and each partition of these topics has an
        owner. Returns the group as it was then. `timeout` in seconds. Raises WaitFailed, an AssertionError that reports
        what happened instead.
        """
        found: GroupView = await self._portal.awaited(
            lambda: self._behind().groups.wait_stable(
                self.id, members=members, partitions=partitions, timeout_s=timeout
            )
        )
        return found

    async def wait_until(
        self,
        predicate: Callable[[GroupView], object],
        *,
        what: str = "a condition of the test",
        topics: Topics = None,
        timeout: float = DEFAULT_TIMEOUT,
    ) -> GroupView:
        """Wait until `predicate(group)` is true. It is called in the server's thread whenever something has happened to
        the group, or these topics have new records. It may read the group, and must do nothing else. `what` describes
        it for WaitFailed. Raises that, and what the predicate raises.
        """
        found: GroupView = await self._portal.awaited(
            lambda: self._behind().groups.wait_until(self.id, predicate, what=what, topics=topics, timeout_s=timeout)
        )
        return found

    async def wait_consumed(
        self,
        topics: Topics = None,
        *,
        up_to: Mapping[tuple[str, int], int] | None = None,
        timeout: float = DEFAULT_TIMEOUT,
    ) -> GroupView:
        """Wait until the group has committed all present records of these topics, or these offsets. Without topics, the
        wait covers all topics that the group owns, subscribes to or has committed to. Raises WaitFailed.
        """
        found: GroupView = await self._portal.awaited(
            lambda: self._behind().groups.wait_consumed(self.id, topics, up_to=up_to, timeout_s=timeout)
        )
        return found

    async def wait_held(self, joins: int = 1, *, timeout: float = DEFAULT_TIMEOUT) -> GroupView:
        """After `hold_joins`: wait until so many joins are held. Raises WaitFailed."""
        found: GroupView = await self._portal.awaited(
            lambda: self._behind().groups.wait_held(self.id, joins, timeout_s=timeout)
        )
        return found

    # ---- acting

    async def rebalance(self) -> None:
        """Force a rebalance. Raises CannotBeDone: the group has no members, or a rebalance is in progress."""
        await self._portal.awaited(lambda: self._behind().groups.rebalance(self.id))

    async def expire(self, member: str | MemberView) -> None:
        """End the session of a member at once, as if the member had been silent for its session timeout. `member`: its
        member id, group.instance.id or client id. Raises CannotBeDone.
        """
        await self._portal.awaited(lambda: self._behind().groups.expire(self.id, name_of(member)))

    async def remove(self, member: str | MemberView) -> None:
        """Remove a member as an administrator does. Raises CannotBeDone."""
        await self._portal.awaited(lambda: self._behind().groups.remove(self.id, name_of(member)))

    async def reset_offsets(self, to: Reset, topics: Topics = None) -> Offsets:
        """Set its committed offsets of these topics (None: of all that it has committed to), and return them. Raises
        CannotBeDone if the group has members (Kafka allows none), or a topic does not exist.
        """
        found: Offsets = await self._portal.awaited(lambda: self._behind().groups.reset_offsets(self.id, to, topics))
        return found

    async def hold_joins(self) -> None:
        """From now on, hold the joins of the group until `release`."""
        await self._portal.awaited(lambda: self._behind().groups.hold_joins(self.id))

    async def release(self) -> int:
        """Let held joins and later ones proceed; return the number of held ones."""
        found: int = await self._portal.awaited(lambda: self._behind().groups.release(self.id))
        return found


class AsyncNode:
    """One broker of the server by its id."""

    def __init__(self, portal: LoopBridge, behind: Behind, node_id: int) -> None:
        self.id = node_id
        self._portal = portal
        self._behind = behind

    def __repr__(self) -> str:
        return f"AsyncNode({self.id!r})"

    async def describe(self) -> NodeView:
        """The node as it is now. Raises CannotBeDone when it does not exist."""
        found: NodeView = await self._portal.awaited(lambda: self._behind().nodes.describe(self.id))
        return found

    async def stop(self) -> None:
        """Controlled shutdown: others take over, then its connections end. Raises CannotBeDone."""
        await self._portal.awaited(lambda: self._behind().nodes.stop(self.id))

    async def kill(self) -> None:
        """Kill it as SIGKILL does; others take over after `broker.session.timeout.ms` (here one second). Raises
        CannotBeDone.
        """
        await self._portal.awaited(lambda: self._behind().nodes.kill(self.id))

    async def pause(self) -> None:
        """Suspend it as SIGSTOP does: it answers nobody, and others take over as after a kill. Raises CannotBeDone."""
        await self._portal.awaited(lambda: self._behind().nodes.pause(self.id))

    async def resume(self) -> None:
        """Continue it after a pause, with the requests that arrived meanwhile. Raises CannotBeDone."""
        await self._portal.awaited(lambda: self._behind().nodes.resume(self.id))

    async def return_(self) -> None:
        """Start it again after it was stopped or killed, on its old addresses. Raises CannotBeDone."""
        await self._portal.awaited(lambda: self._behind().nodes.return_(self.id))
