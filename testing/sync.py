"""Topics, groups and nodes of a server, for tests without an event loop: each verb returns when it is done."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from muster.testcontrol.expected import text
from muster.testcontrol.nodes import NodeView
from muster.testcontrol.topics import Record
from muster.testcontrol.views import GroupView, MemberView, Offsets
from muster.testing.aio import AsyncGroup, AsyncNode, AsyncTopic, Reset
from muster.testing.loop_bridge import LoopBridge
from muster.testing.verbs import DEFAULT_TIMEOUT, Behind, Content, Topics, name_of, records

__tracebackhide__ = True
"""pytest shows the line of the test instead."""


class Topic:
    """One topic by its name, be it there or not."""

    def __init__(self, portal: LoopBridge, behind: Behind, name: str) -> None:
        self.name = text("the name of a topic", name)
        self._portal = portal
        self._behind = behind

    def __repr__(self) -> str:
        return f"Topic({self.name!r})"

    @property
    def aio(self) -> AsyncTopic:
        """The same for asynchronous tests."""
        return AsyncTopic(self._portal, self._behind, self.name)

    def create(self, partitions: int | None = None, *, configs: Mapping[str, object] | None = None) -> Topic:
        """Make it; `partitions` None: as `num.partitions` says. Raises CannotBeDone, as Kafka refuses it."""
        self._portal.call(lambda: self._behind().topics.create(self.name, partitions, configs))
        return self

    def grow(self, partitions: int) -> None:
        """Have so many partitions from now on. Raises CannotBeDone."""
        self._portal.call(lambda: self._behind().topics.grow(self.name, partitions))

    def delete(self) -> None:
        """Delete it and all that is in it. Raises CannotBeDone."""
        self._portal.call(lambda: self._behind().topics.delete(self.name))

    def produce(
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
        found: list[tuple[int, int]] = self._portal.call(lambda: self._behind().topics.produce(self.name, rows))
        return found

    def records(self, partition: int | None = None, *, since: int = 0, most: int = 10_000) -> list[Record]:
        """What is in it, or in one of its partitions, from an offset on: partition by partition, `most` in all. Raises
        CannotBeDone.
        """
        found: list[Record] = self._portal.call(
            lambda: self._behind().topics.records(self.name, partition, since=since, most=most)
        )
        return found

    def end_offsets(self) -> dict[int, int]:
        """The offset of the next record of each partition. Raises CannotBeDone."""
        found: dict[int, int] = self._portal.call(lambda: self._behind().topics.end_offsets(self.name))
        return found


class Group:
    """One group by its id, be it there or not."""

    def __init__(self, portal: LoopBridge, behind: Behind, group_id: str) -> None:
        self.id = text("the id of a group", group_id)
        self._portal = portal
        self._behind = behind

    def __repr__(self) -> str:
        return f"Group({self.id!r})"

    @property
    def aio(self) -> AsyncGroup:
        """The same for asynchronous tests."""
        return AsyncGroup(self._portal, self._behind, self.id)

    # ---- looking

    def describe(self) -> GroupView:
        """The group as it is now, with all of the same moment; one that is not there is Dead."""
        found: GroupView = self._portal.call(lambda: self._behind().groups.describe(self.id))
        return found

    @property
    def state(self) -> str:
        """Kafka's name of its state."""
        return self.describe().state

    @property
    def generation(self) -> int:
        """Its generation; the group epoch of a consumer group."""
        return self.describe().generation

    @property
    def members(self) -> tuple[MemberView, ...]:
        """Its members."""
        return self.describe().members

    @property
    def assignment(self) -> Mapping[str, Mapping[int, str]]:
        """Who owns each partition: topic -> partition -> member id."""
        return self.describe().assignment

    @property
    def offsets(self) -> Offsets:
        """Committed offsets: topic -> partition -> offset."""
        return self.describe().offsets

    @property
    def lag(self) -> Offsets:
        """How many records of each partition are behind the committed offset; all of them where none is committed."""
        return self.describe().lag

    def events(self) -> list[dict[str, Any]]:
        """What happened in it, as `__group_events` has it (docs/events.md)."""
        found: list[dict[str, Any]] = self._portal.call(lambda: self._behind().groups.events(self.id))
        return found

    def history(self, *, everything: bool = False) -> list[str]:
        """The same in words; `everything`: also what the line of a rebalance tells anyway."""
        found: list[str] = self._portal.call(lambda: self._behind().groups.history(self.id, everything=everything))
        return found

    # ---- waiting

    def wait_stable(
        self, members: int | None = None, partitions: Topics = None, *, timeout: float = DEFAULT_TIMEOUT
    ) -> GroupView:
        """Wait until it has members (so many), all of them have what they are to have, and somebody owns each
        partition of these topics. Returns it as it was then. `timeout` in seconds. Raises WaitFailed, an AssertionError
        that tells what happened instead.
        """
        found: GroupView = self._portal.wait(
            lambda: self._behind().groups.wait_stable(
                self.id, members=members, partitions=partitions, timeout_s=timeout
            ),
            timeout,
        )
        return found

    def wait_until(
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
        found: GroupView = self._portal.wait(
            lambda: self._behind().groups.wait_until(self.id, predicate, what=what, topics=topics, timeout_s=timeout),
            timeout,
        )
        return found

    def wait_consumed(
        self,
        topics: Topics = None,
        *,
        up_to: Mapping[tuple[str, int], int] | None = None,
        timeout: float = DEFAULT_TIMEOUT,
    ) -> GroupView:
        """Wait until it has committed all that is in these topics at this moment, or up to these offsets; no topics:
        all that it owns, subscribes to or has committed to. Raises WaitFailed.
        """
        found: GroupView = self._portal.wait(
            lambda: self._behind().groups.wait_consumed(self.id, topics, up_to=up_to, timeout_s=timeout), timeout
        )
        return found

    def wait_held(self, joins: int = 1, *, timeout: float = DEFAULT_TIMEOUT) -> GroupView:
        """After `hold_joins`: wait until so many joins are held back. Raises WaitFailed."""
        found: GroupView = self._portal.wait(
            lambda: self._behind().groups.wait_held(self.id, joins, timeout_s=timeout), timeout
        )
        return found

    # ---- doing

    def rebalance(self) -> None:
        """Force a rebalance. Raises CannotBeDone: there are no members, or one is in progress."""
        self._portal.call(lambda: self._behind().groups.rebalance(self.id))

    def expire(self, member: str | MemberView) -> None:
        """End the session of a member at once, as if it had been silent for its session timeout. By its member id,
        group.instance.id or client id. Raises CannotBeDone.
        """
        self._portal.call(lambda: self._behind().groups.expire(self.id, name_of(member)))

    def remove(self, member: str | MemberView) -> None:
        """Remove a member as an administrator does. Raises CannotBeDone."""
        self._portal.call(lambda: self._behind().groups.remove(self.id, name_of(member)))

    def reset_offsets(self, to: Reset, topics: Topics = None) -> Offsets:
        """Set its committed offsets of these topics (none: of all that it has committed to), and return what was set.
        Raises CannotBeDone: it has members, as Kafka demands that it has none; or there is no such topic.
        """
        found: Offsets = self._portal.call(lambda: self._behind().groups.reset_offsets(self.id, to, topics))
        return found

    def hold_joins(self) -> None:
        """Who wants to join waits from now on, until `release`."""
        self._portal.call(lambda: self._behind().groups.hold_joins(self.id))

    def release(self) -> int:
        """Who waits may join, and whoever comes: how many these were."""
        found: int = self._portal.call(lambda: self._behind().groups.release(self.id))
        return found


class Node:
    """One broker of the server by its id."""

    def __init__(self, portal: LoopBridge, behind: Behind, node_id: int) -> None:
        self.id = node_id
        self._portal = portal
        self._behind = behind

    def __repr__(self) -> str:
        return f"Node({self.id!r})"

    @property
    def aio(self) -> AsyncNode:
        """The same for asynchronous tests."""
        return AsyncNode(self._portal, self._behind, self.id)

    def describe(self) -> NodeView:
        """The node as it is now. Raises CannotBeDone when there is none."""
        found: NodeView = self._portal.call(lambda: self._behind().nodes.describe(self.id))
        return found

    @property
    def state(self) -> str:
        """up, stopping, stopped, killed, returning or paused."""
        return self.describe().state

    def stop(self) -> None:
        """Controlled shutdown: others take over, then its connections end. Raises CannotBeDone."""
        self._portal.call(lambda: self._behind().nodes.stop(self.id))

    def kill(self) -> None:
        """It dies as by SIGKILL; others take over after `broker.session.timeout.ms` (here one second). Raises
        CannotBeDone.
        """
        self._portal.call(lambda: self._behind().nodes.kill(self.id))

    def pause(self) -> None:
        """It stands still as by SIGSTOP and answers nobody; others take over as after a kill. Raises CannotBeDone."""
        self._portal.call(lambda: self._behind().nodes.pause(self.id))

    def resume(self) -> None:
        """It goes on after a pause, with what it was asked meanwhile. Raises CannotBeDone."""
        self._portal.call(lambda: self._behind().nodes.resume(self.id))

    def return_(self) -> None:
        """It starts again after it was stopped or killed, where it listened before. Raises CannotBeDone."""
        self._portal.call(lambda: self._behind().nodes.return_(self.id))
