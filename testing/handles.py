"""The topics, groups and nodes of a server, for tests without an event loop and (`Async…`) for asynchronous tests."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Literal

from muster.coordinator.server.group_views import GroupView, MemberView, Offsets
from muster.testcontrol.checks import text
from muster.testcontrol.nodes import NodeView
from muster.testcontrol.topics import Record
from muster.testing.loop_bridge import LoopBridge
from muster.testing.verbs import (
    DEFAULT_TIMEOUT,
    Awaited,
    Behind,
    Blocking,
    Content,
    Handle,
    Topics,
    name_of,
    records,
    verb,
    wait,
)

__tracebackhide__ = True
"""With this name, pytest shows the line of the test in place of the lines of this module."""

Reset = Literal["earliest", "latest"] | int | Mapping[tuple[str, int], int]
"""The new committed offsets: "earliest", "latest", one offset for all partitions, or offsets by topic and partition."""


class _TopicVerbs(Handle):
    def __init__(self, bridge: LoopBridge, behind: Behind, name: str) -> None:
        super().__init__(bridge, behind)
        self.name = text("the name of a topic", name)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.name!r})"

    @verb
    def _create(self, partitions: int | None, configs: Mapping[str, object] | None) -> None:
        return self._behind().topics.create(self.name, partitions, configs)

    @verb
    def grow(self, partitions: int) -> None:
        """Give the topic a higher number of partitions. Raises CannotBeDone."""
        return self._behind().topics.grow(self.name, partitions)

    @verb
    def delete(self) -> None:
        """Delete the topic and all its records. Raises CannotBeDone."""
        return self._behind().topics.delete(self.name)

    @verb
    def produce(
        self,
        *values: Content,
        key: Content = None,
        partition: int | None = None,
        headers: Mapping[str, Content] | None = None,
        timestamp_ms: int | None = None,
    ) -> list[tuple[int, int]]:
        """Append a record for each value, and return the (partition, offset) of each. When this returns, the records
        can be read. `partition` None: the key decides, as in Kafka's clients; records without a key go to partitions in
        turn. Raises CannotBeDone.
        """
        rows = records(values, key, partition, headers, timestamp_ms)
        return self._behind().topics.produce(self.name, rows)

    @verb
    def records(self, partition: int | None = None, *, since: int = 0, most: int = 10_000) -> list[Record]:
        """The first `most` records of the topic, or of one of its partitions, from offset `since` on. They are sorted
        by partition. Raises CannotBeDone.
        """
        return self._behind().topics.records(self.name, partition, since=since, most=most)

    @verb
    def end_offsets(self) -> dict[int, int]:
        """The offset that the next record of each partition will get. Raises CannotBeDone."""
        return self._behind().topics.end_offsets(self.name)


class AsyncTopic(_TopicVerbs, Awaited):
    """One topic by its name, whether it exists or not."""

    async def create(self, partitions: int | None = None, *, configs: Mapping[str, object] | None = None) -> AsyncTopic:
        """Create the topic. `partitions` None: `num.partitions`. Raises CannotBeDone where Kafka would refuse."""
        await self._create(partitions, configs)
        return self


class Topic(_TopicVerbs, Blocking):
    """One topic by its name, whether it exists or not."""

    @property
    def aio(self) -> AsyncTopic:
        """The same topic for asynchronous tests."""
        return AsyncTopic(self._bridge, self._behind, self.name)

    def create(self, partitions: int | None = None, *, configs: Mapping[str, object] | None = None) -> Topic:
        """Create the topic. `partitions` None: `num.partitions`. Raises CannotBeDone where Kafka would refuse."""
        self._create(partitions, configs)
        return self


class _GroupVerbs(Handle):
    def __init__(self, bridge: LoopBridge, behind: Behind, group_id: str) -> None:
        super().__init__(bridge, behind)
        self.id = text("the id of a group", group_id)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.id!r})"

    # ---- reading

    @verb
    def describe(self) -> GroupView:
        """Describe the group at one moment. The state of a group that does not exist is Dead."""
        return self._behind().groups.describe(self.id)

    @verb
    def events(self) -> list[dict[str, Any]]:
        """The events of the group, as in `__group_events` (docs/events.md)."""
        return self._behind().groups.events(self.id)

    @verb
    def history(self, *, everything: bool = False) -> list[str]:
        """The events of the group in words. `everything`: also events that the line of a rebalance already covers."""
        return self._behind().groups.history(self.id, everything=everything)

    # ---- waiting

    @wait
    def wait_stable(
        self, members: int | None = None, partitions: Topics = None, *, timeout: float = DEFAULT_TIMEOUT
    ) -> GroupView:
        """Wait until the group has `members` members (None: any number). Each member must have its target assignment,
        and each partition of these topics an owner. Returns the description of the group at that moment. `timeout`: in
        seconds. Raises WaitFailed, an AssertionError that reports what happened instead.
        """
        return self._behind().groups.wait_stable(self.id, members=members, partitions=partitions, timeout_s=timeout)

    @wait
    def wait_until(
        self,
        predicate: Callable[[GroupView], object],
        *,
        what: str = "a condition of the test",
        topics: Topics = None,
        timeout: float = DEFAULT_TIMEOUT,
    ) -> GroupView:
        """Wait until `predicate(group)` is true. The server's thread calls the predicate whenever the group has
        changed, or these topics have new records. The predicate may only read the group. `what`: describes the
        predicate in the text of WaitFailed. Raises WaitFailed, and what the predicate raises.
        """
        return self._behind().groups.wait_until(self.id, predicate, what=what, topics=topics, timeout_s=timeout)

    @wait
    def wait_consumed(
        self,
        topics: Topics = None,
        *,
        up_to: Mapping[tuple[str, int], int] | None = None,
        timeout: float = DEFAULT_TIMEOUT,
    ) -> GroupView:
        """Wait until the group has committed all present records of these topics, or the offsets `up_to`. `topics`
        None: all topics that the group owns, subscribes to or has committed to. Raises WaitFailed.
        """
        return self._behind().groups.wait_consumed(self.id, topics, up_to=up_to, timeout_s=timeout)

    @wait
    def wait_held(self, joins: int = 1, *, timeout: float = DEFAULT_TIMEOUT) -> GroupView:
        """After `hold_joins`: wait until `joins` joins are held. Raises WaitFailed."""
        return self._behind().groups.wait_held(self.id, joins, timeout_s=timeout)

    # ---- acting

    @verb
    def rebalance(self) -> None:
        """Force a rebalance. Raises CannotBeDone if the group has no members, or a rebalance is in progress."""
        return self._behind().groups.rebalance(self.id)

    @verb
    def expire(self, member: str | MemberView) -> None:
        """End the session of a member at once, as if the member had been silent for its session timeout. `member`: a
        member id, group.instance.id or client id. Raises CannotBeDone.
        """
        return self._behind().groups.expire(self.id, name_of(member))

    @verb
    def remove(self, member: str | MemberView) -> None:
        """Remove a member as Kafka's administrators do. Raises CannotBeDone."""
        return self._behind().groups.remove(self.id, name_of(member))

    @verb
    def reset_offsets(self, to: Reset, topics: Topics = None) -> Offsets:
        """Set the group's committed offsets in these topics (None: in all topics that it has committed to), and return
        them. Raises CannotBeDone if a topic does not exist, or the group has members (Kafka does not allow that).
        """
        return self._behind().groups.reset_offsets(self.id, to, topics)

    @verb
    def hold_joins(self) -> None:
        """From now on, hold the joins of the group until `release`."""
        return self._behind().groups.hold_joins(self.id)

    @verb
    def release(self) -> int:
        """Let held joins, and later joins, proceed. Returns how many joins were held."""
        return self._behind().groups.release(self.id)


class AsyncGroup(_GroupVerbs, Awaited):
    """One group by its id, whether it exists or not."""


class Group(_GroupVerbs, Blocking):
    """One group by its id, whether it exists or not."""

    @property
    def aio(self) -> AsyncGroup:
        """The same group for asynchronous tests."""
        return AsyncGroup(self._bridge, self._behind, self.id)

    @property
    def state(self) -> str:
        """Kafka's name of the group's state."""
        return self.describe().state

    @property
    def generation(self) -> int:
        """The generation of a classic group, or the group epoch of a consumer group."""
        return self.describe().generation

    @property
    def members(self) -> tuple[MemberView, ...]:
        """The members of the group."""
        return self.describe().members

    @property
    def assignment(self) -> Mapping[str, Mapping[int, str]]:
        """The owner of each partition: topic -> partition -> member id."""
        return self.describe().assignment

    @property
    def offsets(self) -> Offsets:
        """The committed offsets: topic -> partition -> offset."""
        return self.describe().offsets

    @property
    def lag(self) -> Offsets:
        """The number of records from the committed offset on, for each partition. Without a committed offset, all
        records of the partition count.
        """
        return self.describe().lag


class _NodeVerbs(Handle):
    def __init__(self, bridge: LoopBridge, behind: Behind, node_id: int) -> None:
        super().__init__(bridge, behind)
        self.id = node_id

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.id!r})"

    @verb
    def describe(self) -> NodeView:
        """Describe the node as it is now. Raises CannotBeDone when it does not exist."""
        return self._behind().nodes.describe(self.id)

    @verb
    def stop(self) -> None:
        """Stop the node in order: other nodes take over, then its connections end. Raises CannotBeDone."""
        return self._behind().nodes.stop(self.id)

    @verb
    def kill(self) -> None:
        """End the node as SIGKILL does. Other nodes take over after `broker.session.timeout.ms` (here one second).
        Raises CannotBeDone.
        """
        return self._behind().nodes.kill(self.id)

    @verb
    def pause(self) -> None:
        """Suspend the node as SIGSTOP does: it answers nobody, and other nodes take over as after a kill. Raises
        CannotBeDone.
        """
        return self._behind().nodes.pause(self.id)

    @verb
    def resume(self) -> None:
        """Let the node continue after a pause. It then handles the requests that arrived meanwhile. Raises
        CannotBeDone.
        """
        return self._behind().nodes.resume(self.id)

    @verb
    def return_(self) -> None:
        """Start a stopped or killed node again, on its old addresses. Raises CannotBeDone."""
        return self._behind().nodes.return_(self.id)


class AsyncNode(_NodeVerbs, Awaited):
    """One broker of the server by its id."""


class Node(_NodeVerbs, Blocking):
    """One broker of the server by its id."""

    @property
    def aio(self) -> AsyncNode:
        """The same node for asynchronous tests."""
        return AsyncNode(self._bridge, self._behind, self.id)

    @property
    def state(self) -> str:
        """The state of the node: up, stopping, stopped, killed, returning or paused."""
        return self.describe().state
