"""The topics and nodes of a server, for tests without an event loop and (`Async…`) for asynchronous tests."""

from __future__ import annotations

from collections.abc import Mapping

from muster.testcontrol.checks import text
from muster.testcontrol.nodes import NodeView
from muster.testcontrol.topics import Record
from muster.testing.loop_bridge import LoopBridge
from muster.testing.verbs import (
    Awaited,
    Behind,
    Blocking,
    Content,
    Handle,
    records,
    verb,
)

__tracebackhide__ = True
"""With this name, pytest shows the line of the test in place of the lines of this module."""


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
