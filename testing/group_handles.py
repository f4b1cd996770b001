"""The groups of a server, for tests without an event loop and (`AsyncGroup`) for asynchronous tests."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Literal

from muster.coordinator.server.group_views import GroupView, MemberView, Offsets
from muster.testcontrol.checks import text
from muster.testing.loop_bridge import LoopBridge
from muster.testing.settings import property_name
from muster.testing.verbs import (
    DEFAULT_TIMEOUT,
    Awaited,
    Behind,
    Blocking,
    Handle,
    Topics,
    name_of,
    verb,
    wait,
)

__tracebackhide__ = True
"""With this name, pytest shows the line of the test in place of the lines of this module."""

Reset = Literal["earliest", "latest"] | int | Mapping[tuple[str, int], int]
"""The new offsets: "earliest", "latest", one offset for all partitions, or offsets by topic and partition."""


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

    @wait
    def wait_acknowledged(
        self,
        topics: Topics = None,
        *,
        up_to: Mapping[tuple[str, int], int] | None = None,
        timeout: float = DEFAULT_TIMEOUT,
    ) -> GroupView:
        """Wait until the share group has accepted or archived all present records of these topics. `topics` None: all
        topics that its members read. `up_to`: only the records before these offsets count. Raises WaitFailed.
        """
        return self._behind().groups.wait_acknowledged(self.id, topics, up_to=up_to, timeout_s=timeout)

    @wait
    def wait_acquired(
        self,
        records: int = 1,
        topics: Topics = None,
        *,
        member: str | MemberView | None = None,
        timeout: float = DEFAULT_TIMEOUT,
    ) -> GroupView:
        """Wait until members of the share group, or this member, hold this many records. Raises WaitFailed."""
        name = None if member is None else name_of(member)
        return self._behind().groups.wait_records(self.id, "in_flight", records, topics, member=name, timeout_s=timeout)

    @wait
    def wait_released(self, records: int = 1, topics: Topics = None, *, timeout: float = DEFAULT_TIMEOUT) -> GroupView:
        """Wait until this many deliveries have ended without success since the server's start. The records were then
        available again: a member released them, or left, or its lock was over. Raises WaitFailed.
        """
        return self._behind().groups.wait_records(self.id, "released", records, topics, timeout_s=timeout)

    @wait
    def wait_archived(self, records: int = 1, topics: Topics = None, *, timeout: float = DEFAULT_TIMEOUT) -> GroupView:
        """Wait until this many records were archived since the server's start. They were rejected, or delivered as
        often as the share group allows. Raises WaitFailed.
        """
        return self._behind().groups.wait_records(self.id, "archived", records, topics, timeout_s=timeout)

    @wait
    def wait_dead_lettered(
        self, records: int = 1, topics: Topics = None, *, timeout: float = DEFAULT_TIMEOUT
    ) -> GroupView:
        """Wait until this many records are in the dead-letter queue since the server's start. Raises WaitFailed."""
        return self._behind().groups.wait_records(self.id, "dead_letters", records, topics, timeout_s=timeout)

    @wait
    def wait_acknowledgements_held(self, requests: int = 1, *, timeout: float = DEFAULT_TIMEOUT) -> GroupView:
        """After `hold_acknowledgements`: wait until `requests` requests are held. Raises WaitFailed."""
        return self._behind().groups.wait_acknowledgements_held(self.id, requests, timeout_s=timeout)

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
        """Set the group's committed offsets, or a share group's start offsets, and return them. `topics` None: in
        all topics that have such offsets. Raises CannotBeDone if a topic does not exist, or the group has members
        (Kafka does not allow that).
        """
        return self._behind().groups.reset_offsets(self.id, to, topics)

    @verb
    def configure(self, configs: Mapping[str, object] | None = None, /, **named: object) -> None:
        """Set configs of the group, with Kafka's names, in a mapping or as keywords: `share_auto_offset_reset` is
        `share.auto.offset.reset`. Raises CannotBeDone where Kafka would refuse.
        """
        given = {**(configs or {}), **{property_name(name): value for name, value in named.items()}}
        return self._behind().groups.configure(self.id, given)

    @verb
    def hold_joins(self) -> None:
        """From now on, hold the joins of the group until `release`."""
        return self._behind().groups.hold_joins(self.id)

    @verb
    def release(self) -> int:
        """Let held joins, and later joins, proceed. Returns how many joins were held."""
        return self._behind().groups.release(self.id)

    @verb
    def expire_locks(
        self,
        member: str | MemberView | None = None,
        *,
        topic: str | None = None,
        partition: int | None = None,
        offset: int | None = None,
        last_offset: int | None = None,
    ) -> int:
        """End the locks of records of the share group now, and return how many records these are. The locks are those
        of a member, a topic, a partition, one record, or the records up to `last_offset`. Raises CannotBeDone.
        """
        name = None if member is None else name_of(member)
        where = {"topic": topic, "partition": partition, "offset": offset, "last_offset": last_offset}
        return self._behind().groups.expire_locks(self.id, name, **where)

    @verb
    def deliver_again(self, topic: str, partition: int, offset: int) -> None:
        """Have a record of the share group delivered again. If a member holds the record, its lock ends now. Raises
        CannotBeDone where Kafka would not deliver it again: it is accepted or archived, or nobody has got it yet.
        """
        return self._behind().groups.deliver_again(self.id, topic, partition, offset)

    @verb
    def hold_acknowledgements(self) -> None:
        """From now on, hold requests with acknowledgements of records of the share group, until their release."""
        return self._behind().groups.hold_acknowledgements(self.id)

    @verb
    def release_acknowledgements(self) -> int:
        """Let held acknowledgements, and later ones, proceed. Returns how many requests were held."""
        return self._behind().groups.release_acknowledgements(self.id)


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
