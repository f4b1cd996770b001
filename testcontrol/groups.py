"""The verbs on groups: a test reads the groups of a running server, waits for them, and acts on them.

The verbs serve classic groups, groups of KIP-848, and share groups. Call the verbs from the server's event loop only.
This module knows neither HTTP nor threads.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Any, Final

from muster.coordinator.api.configs.alter_configs import changing
from muster.coordinator.api.configs.resources import Kind
from muster.coordinator.groups.common import events
from muster.coordinator.groups.share.group import SHARE
from muster.coordinator.history.timeline import Timeline
from muster.coordinator.server import Server, group_snapshots
from muster.coordinator.server.group_views import DEAD, GroupView, MemberView, Offsets, others
from muster.testcontrol import checks, group_actions, offset_resets, waits
from muster.testcontrol.errors import CannotBeDone, WaitFailed
from muster.testcontrol.interceptors import HeldRequests
from muster.testcontrol.offset_resets import Reset
from muster.testcontrol.shares import Shares, Where
from muster.testcontrol.topics import changed
from muster.testcontrol.waits import TimeIsOver, next_iteration, until

DEFAULT_TIMEOUT_S: Final = 10.0
"""The default limit of a wait."""
MAX_LINES: Final = 60
"""The most lines of a timeline in the text of a failed wait."""

Topics = str | Iterable[str] | None
"""One topic by name, several, or None for no topic in particular."""


class Groups:
    """See the module."""

    def __init__(self, server: Server, joins: HeldRequests, acknowledgements: HeldRequests, shares: Shares) -> None:
        """`joins`, `acknowledgements`: the server was given their interceptors."""
        self._server = server
        self._joins = joins
        self._acknowledgements = acknowledgements
        self._shares = shares
        self.interventions: Callable[[], list[str]] = list
        """The interventions of the test, in words."""

    # ---- reading

    def ids(self) -> list[str]:
        """The ids of all groups, ascending."""
        return group_snapshots.group_ids(self._server)

    def describe(self, group_id: str) -> GroupView:
        """The group as it is now. The state of a group that does not exist is Dead."""
        return self._shares.counted(group_snapshots.describe(self._server, group_id))

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

    async def wait_acknowledgements_held(
        self, group_id: str, requests: int, *, timeout_s: float = DEFAULT_TIMEOUT_S
    ) -> GroupView:
        """Wait until `requests` requests with acknowledgements are held. Raises WaitFailed."""
        checks.whole("requests", requests)
        held = self._acknowledgements
        what = f"{requests} requests with acknowledgements are held"
        condition = waits.Condition(what, lambda _: held.waiting(group_id) >= requests)
        return await self._wait(group_id, condition, timeout_s)

    async def wait_acknowledged(
        self,
        group_id: str,
        topics: Topics = None,
        *,
        up_to: Mapping[tuple[str, int], int] | None = None,
        timeout_s: float = DEFAULT_TIMEOUT_S,
    ) -> GroupView:
        """Wait until all present records of these topics are accepted or archived in a share group. Without topics, the
        wait covers all topics that its members read. `up_to`: until those before these offsets are. Raises WaitFailed.
        """
        names = checks.texts("topics", topics)
        condition = waits.acknowledged(self._server, names, up_to, lambda: self.describe(group_id))
        return await self._wait(group_id, condition, timeout_s)

    async def wait_records(
        self,
        group_id: str,
        what: str,
        records: int = 1,
        topics: Topics = None,
        *,
        member: str | None = None,
        timeout_s: float = DEFAULT_TIMEOUT_S,
    ) -> GroupView:
        """Wait until this many records of a share group have the figure `what` of `RecordsView`: one of `waits.COUNTS`.
        `member`: with "in_flight", only records that it holds. Raises WaitFailed.
        """
        condition = waits.counted(what, records, checks.texts("topics", topics), member)
        return await self._wait(group_id, condition, timeout_s)

    async def _wait(self, group_id: str, condition: waits.Condition, timeout_s: float) -> GroupView:
        checks.seconds("timeout", timeout_s)

        def check() -> GroupView | None:
            group = self.describe(group_id)
            return group if condition.holds(group) else None

        try:
            return await until(
                self._server, group_id, check, timeout_s, topics=condition.topics, also=self._when_changed
            )
        except TimeIsOver:
            raise await self.failed(group_id, condition.what, timeout_s) from None

    def _when_changed(self, callback: Callable[[], object]) -> Callable[[], object]:
        ends = [one.when_changed(callback) for one in (self._joins, self._acknowledgements, self._shares)]

        def end() -> None:
            for one in ends:
                one()

        return end

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
        held = self._acknowledgements.waiting(group_id)
        if held:
            now += f"\n  {held} requests with acknowledgements are held back"
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
        """Set committed offsets, or a share group's start offsets, and return them. Without topics, `to` decides: the
        partitions of a mapping, else all topics that the group has committed to. Raises CannotBeDone if the group has
        members (Kafka allows none), or a topic does not exist. Raises WrongValue.
        """
        to, names = checks.reset(to), checks.texts("topics", topics)
        group = self.describe(group_id)
        if group.members:
            raise CannotBeDone(f"group {group_id} has members: stop its consumers before its offsets are reset")
        wanted = offset_resets.wanted(self._server, to, names or tuple(group.offsets))
        if group.kind == SHARE:
            await offset_resets.set_starts(self._shard(group_id), group_id, wanted)
        else:
            await offset_resets.commit(self._server, self._shard(group_id), group_id, wanted)
        return wanted

    async def configure(self, group_id: str, configs: Mapping[str, object]) -> None:
        """Set configs of the group, as administrators do. Raises WrongValue, and CannotBeDone where Kafka refuses."""
        given: dict[str, str | None] = {**checks.properties("configs", configs)}
        job = changing(self._server.node, Kind.GROUP, group_id, given, validate_only=False)
        await changed(self._server, job)

    def hold_joins(self, group_id: str) -> None:
        """From now on, hold the joins of the group until `release`."""
        self._joins.hold(group_id)

    def release(self, group_id: str) -> int:
        """Let held joins and later joins proceed; return how many were held."""
        return self._joins.release(group_id)

    def hold_acknowledgements(self, group_id: str) -> None:
        """From now on, hold requests with acknowledgements of records of a share group, until their release."""
        self._acknowledgements.hold(group_id)

    def release_acknowledgements(self, group_id: str) -> int:
        """Let held acknowledgements and later ones proceed; return how many requests were held."""
        return self._acknowledgements.release(group_id)

    def expire_locks(
        self,
        group_id: str,
        member: str | None = None,
        *,
        topic: str | None = None,
        partition: int | None = None,
        offset: int | None = None,
        last_offset: int | None = None,
    ) -> int:
        """End the locks of records of a share group now, and return how many records these are. The locks are those of
        a member, a topic, a partition, one record, or the records up to `last_offset`. Raises CannotBeDone, WrongValue.
        """
        where = Where(*checks.records(topic, partition, offset, last_offset))
        member_id = None if member is None else self._member(group_id, member).member_id
        return self._shares.expire_locks(group_id, member_id, where)

    def deliver_again(self, group_id: str, topic: str, partition: int, offset: int) -> None:
        """Have a record of a share group delivered again. If a member holds the record, its lock ends now. Its
        acknowledgement is then refused. Raises CannotBeDone where Kafka would not deliver it again.
        """
        checks.records(topic, partition, offset, None)
        self._shares.deliver_again(group_id, topic, partition, offset)

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
