"""Topics, groups and nodes of a server, for asynchronous tests: each verb is awaited."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Literal

from muster.testcontrol.expected import text
from muster.testcontrol.nodes import NodeView
from muster.testcontrol.topics import Record
from muster.testcontrol.views import GroupView, MemberView, Offsets
from muster.testing.loop_bridge import LoopBridge
from muster.testing.verbs import DEFAULT_TIMEOUT, Behind, Content, Topics, name_of, records

__tracebackhide__ = True
"""pytest shows the line of the test instead."""

Reset = Literal["earliest", "latest"] | int | Mapping[tuple[str, int], int]
"""Where offsets are reset to: a place, the same offset in each partition, or offsets by topic and partition."""


class AsyncTopic:
    """One topic by its name, be it there or not."""

    def __init__(self, portal: LoopBridge, behind: Behind, name: str) -> None:
        self.name = text("the name of a topic", name)
        self._portal = portal
        self._behind = behind

    def __repr__(self) -> str:
        return f"AsyncTopic({self.name!r})"

    async def create(self, partitions: int | None = None, *, configs: Mapping[str, object] | None = None) -> AsyncTopic:
        """Make it; `partitions` None: as `num.partitions` says. Raises CannotBeDone, as Kafka refuses it."""
        await self._portal.awaited(lambda: self._behind().topics.create(self.name, partitions, configs))
        return self

    async def grow(self, partitions: int) -> None:
        """Have so many partitions from now on. Raises CannotBeDone."""
        await self._portal.awaited(lambda: self._behind().topics.grow(self.name, partitions))

    async def delete(self) -> None:
        """Delete it and all that is in it. Raises CannotBeDone."""
        await self._portal.awaited(lambda: self._behind().topics.delete(self.name))

    async def produce(
        self,
        *values: Content,
        key: Content = None,
        partition: int | None = None,
        headers: Mapping[str, Content] | None = None,
        timestamp_ms: int | None = None,
    ) -> list[tuple[int, int]]:
        """Append a record of each value, and return where they are: (partition, offset) of each. They can be read then.
        `partition` None: by the key as Kafka's clients do, without one in turn. Raises CannotBeDone.
        """
        rows = records(values, key, partition, headers, timestamp_ms)
        found: list[tuple[int, int]] = await self._portal.awaited(
            lambda: self._behind().topics.produce(self.name, rows)
        )
        return found

    async def records(self, partition: int | None = None, *, since: int = 0, most: int = 10_000) -> list[Record]:
        """What is in it, or in one of its partitions, from an offset on: partition by partition, `most` in all. Raises
        CannotBeDone.
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
    """One group by its id, be it there or not."""

    def __init__(self, portal: LoopBridge, behind: Behind, group_id: str) -> None:
        self.id = text("the id of a group", group_id)
        self._portal = portal
        self._behind = behind

    def __repr__(self) -> str:
        return f"AsyncGroup({self.id!r})"

    # ---- looking

    async def describe(self) -> GroupView:
        """The group as it is now, with all of the same moment; one that is not there is Dead."""
        found: GroupView = await self._portal.awaited(lambda: self._behind().groups.describe(self.id))
        return found

    async def events(self) -> list[dict[str, Any]]:
        """What happened in it, as `__group_events` has it (docs/events.md)."""
        found: list[dict[str, Any]] = await self._portal.awaited(lambda: self._behind().groups.events(self.id))
        return found

    async def history(self, *, everything: bool = False) -> list[str]:
        """The same in words; `everything`: also what the line of a rebalance tells anyway."""
        found: list[str] = await self._portal.awaited(
            lambda: self._behind().groups.history(self.id, everything=everything)
        )
        return found

    # ---- waiting

    async def wait_stable(
        self, members: int | None = None, partitions: Topics = None, *, timeout: float = DEFAULT_TIMEOUT
    ) -> GroupView:
        """Wait until it has members (so many), all of them have what they are to have, and somebody owns each
        partition of these topics. Returns it as it was then. `timeout` in seconds. Raises WaitFailed, an AssertionError
        that tells what happened instead.
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
        """Wait until `predicate(group)` is true. It is asked in the server's thread whenever something has happened to
        the group, or records have come to these topics: it may look at the group and do nothing else. `what` it is, for
        WaitFailed. Raises that, and what the predicate raises.
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
        """Wait until it has committed all that is in these topics at this moment, or up to these offsets; no topics:
        all that it owns, subscribes to or has committed to. Raises WaitFailed.
        """
        found: GroupView = await self._portal.awaited(
            lambda: self._behind().groups.wait_consumed(self.id, topics, up_to=up_to, timeout_s=timeout)
        )
        return found

    async def wait_held(self, joins: int = 1, *, timeout: float = DEFAULT_TIMEOUT) -> GroupView:
        """After `hold_joins`: wait until so many joins are held back. Raises WaitFailed."""
        found: GroupView = await self._portal.awaited(
            lambda: self._behind().groups.wait_held(self.id, joins, timeout_s=timeout)
        )
        return found

    # ---- doing

    async def rebalance(self) -> None:
        """Force a rebalance. Raises CannotBeDone: there are no members, or one is in progress."""
        await self._portal.awaited(lambda: self._behind().groups.rebalance(self.id))

    async def expire(self, member: str | MemberView) -> None:
        """End the session of a member at once, as if it had been silent for its session timeout. By its member id,
        group.instance.id or client id. Raises CannotBeDone.
        """
        await self._portal.awaited(lambda: self._behind().groups.expire(self.id, name_of(member)))

    async def remove(self, member: str | MemberView) -> None:
        """Remove a member as an administrator does. Raises CannotBeDone."""
        await self._portal.awaited(lambda: self._behind().groups.remove(self.id, name_of(member)))

    async def reset_offsets(self, to: Reset, topics: Topics = None) -> Offsets:
        """Set its committed offsets of these topics (none: of all that it has committed to), and return what was set.
        Raises CannotBeDone: it has members, as Kafka demands that it has none; or there is no such topic.
        """
        found: Offsets = await self._portal.awaited(lambda: self._behind().groups.reset_offsets(self.id, to, topics))
        return found

    async def hold_joins(self) -> None:
        """Who wants to join waits from now on, until `release`."""
        await self._portal.awaited(lambda: self._behind().groups.hold_joins(self.id))

    async def release(self) -> int:
        """Who waits may join, and whoever comes: how many these were."""
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
        """The node as it is now. Raises CannotBeDone when there is none."""
        found: NodeView = await self._portal.awaited(lambda: self._behind().nodes.describe(self.id))
        return found

    async def stop(self) -> None:
        """Controlled shutdown: others take over, then its connections end. Raises CannotBeDone."""
        await self._portal.awaited(lambda: self._behind().nodes.stop(self.id))

    async def kill(self) -> None:
        """It dies as by SIGKILL; others take over after `broker.session.timeout.ms` (here one second). Raises
        CannotBeDone.
        """
        await self._portal.awaited(lambda: self._behind().nodes.kill(self.id))

    async def pause(self) -> None:
        """It stands still as by SIGSTOP and answers nobody; others take over as after a kill. Raises CannotBeDone."""
        await self._portal.awaited(lambda: self._behind().nodes.pause(self.id))

    async def resume(self) -> None:
        """It goes on after a pause, with what it was asked meanwhile. Raises CannotBeDone."""
        await self._portal.awaited(lambda: self._behind().nodes.resume(self.id))

    async def return_(self) -> None:
        """It starts again after it was stopped or killed, where it listened before. Raises CannotBeDone."""
        await self._portal.awaited(lambda: self._behind().nodes.return_(self.id))
