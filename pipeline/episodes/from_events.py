"""Makes members and rebalances of the events of one group (docs/events.md), without Spark, for `muster groups`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final, NamedTuple

from muster.coordinator.groups.common import events
from muster.pipeline.episodes.claims import Facts
from muster.pipeline.episodes.find import episodes
from muster.pipeline.episodes.model import EXPIRED, LEFT, REMOVED, REPLACED, Episode, Rebalance, Stay, Who
from muster.pipeline.episodes.stream_facts import NOT_READY, SHUTDOWN, Streams, Topics
from muster.pipeline.episodes.verdict import Verdict, verdict

Value = Mapping[str, Any]

_HOW: Final = {events.MEMBER_LEFT: LEFT, events.MEMBER_EXPIRED: EXPIRED, events.MEMBER_REMOVED: REMOVED}
_BEFORE_MS: Final = 3_600_000
"""A member that joined before the first event counts as a member since this long before that event."""
_SHARES: Final = ("kept", "moved", "gained")


class EventEpisodes(NamedTuple):
    """What the events of a group show."""

    episodes: list[Episode]
    verdict: Verdict | None
    """The verdict about the group; None if the events show nothing."""


def episodes_of_events(values: Iterable[Value], now_ms: int) -> EventEpisodes:
    """The episodes and the verdict of one group, made from its events in their order."""
    reader, topics = EventReader(), TopicsReader()
    for value in values:
        reader.feed(value)
        topics.feed(value)
    if not reader.rebalances:
        return EventEpisodes([], None)
    stays = reader.all_stays()
    found = episodes(stays, reader.rebalances)
    facts = Facts(max(now_ms, reader.last_ms), stays=stays, rebalances=reader.rebalances, deleted_ms=reader.deleted_ms,
                  streams=Streams(topics=topics.all()))  # fmt: skip
    return EventEpisodes(found, verdict(found, facts))


class TopicsReader:
    """When the topics of a streams group were not ready, and its shutdowns, from its events in their order."""

    def __init__(self) -> None:
        self._over: list[Topics] = []
        self._unready: Topics | None = None

    def feed(self, value: Value) -> None:
        """Take an event; those of other kinds are ignored."""
        kind, at_ms = value["kind"], value["time"]
        if kind == events.TOPICS_NOT_READY:
            from_ms = at_ms if self._unready is None else self._unready.from_ms
            self._unready = Topics(NOT_READY, from_ms, None, why=value["detail"])
        elif kind == events.APPLICATION_SHUTDOWN:
            self._over.append(Topics(SHUTDOWN, at_ms, None, client=value["member"]["client_id"]))
        elif self._unready is not None and (
            kind in (events.TOPICS_READY, events.GROUP_DELETED)
            or (kind == events.EPOCH_BUMPED and not value["members"])
        ):
            self._over.append(self._unready._replace(until_ms=at_ms))
            self._unready = None

    def all(self) -> list[Topics]:
        """All of them, in the order of their ends."""
        return self._over if self._unready is None else [*self._over, self._unready]


class EventReader:
    """Members and rebalances of one group, from its events in their order."""

    def __init__(self) -> None:
        self.stays: dict[str, Stay] = {}
        """The present members, by their ids."""
        self.rebalances: list[Rebalance] = []
        self.last_ms = 0
        """The time of the last event."""
        self.deleted_ms: int | None = None
        """When the group was deleted. None: it was not, or it has events after that."""
        self._over: list[Stay] = []
        self._started: Value | None = None
        self._partitions = 0
        self._epoch: Value | None = None
        """The latest epoch, until all members have reached it."""

    def all_stays(self) -> list[Stay]:
        """The former and the present members."""
        return [*self._over, *self.stays.values()]

    def forget(self, before_ms: int) -> None:
        """Forget members and rebalances that ended before this time."""
        if self._over and (self._over[0].end_ms or 0) < before_ms:
            self._over = [one for one in self._over if (one.end_ms or 0) >= before_ms]
        if self.rebalances and self.rebalances[0].end_ms < before_ms:
            self.rebalances = [one for one in self.rebalances if one.end_ms >= before_ms]

    def feed(self, value: Value) -> None:
        """Take an event."""
        kind, at_ms = value["kind"], value["time"]
        self.last_ms = max(self.last_ms, at_ms)
        self.deleted_ms = at_ms if kind == events.GROUP_DELETED else None
        if kind in (events.MEMBER_JOINED, events.MEMBER_REPLACED):
            if kind == events.MEMBER_REPLACED:
                self._ends(value.get("replaced"), REPLACED, at_ms)
            self._begins(value["member"], at_ms)
        elif kind in _HOW:
            self._ends(value["member"]["member"], _HOW[kind], at_ms)
        elif kind == events.REBALANCE_STARTED:
            self._started = value
        elif kind in (events.REBALANCE_COMPLETED, events.GROUP_EMPTIED):
            self._ended(value, at_ms)
        elif kind in (events.EPOCH_BUMPED, events.EPOCH_RECONCILED, events.GROUP_DOWNGRADED):
            self._epoch_ends(value, at_ms)
        elif kind == events.GROUP_DELETED:
            for member_id in list(self.stays):
                self._ends(member_id, LEFT, at_ms)

    def _begins(self, member: Value, at_ms: int) -> None:
        who = Who(member["member"], member.get("instance"), member.get("client_id"), member.get("host"))
        session_ms, patience_ms = member.get("session_timeout_ms"), member.get("rebalance_timeout_ms")
        self.stays[who.member_id] = Stay(who, at_ms, None, None, patience_ms=patience_ms, session_ms=session_ms)

    def _ends(self, member_id: str | None, how: str, at_ms: int) -> None:
        stay = self.stays.pop(member_id or "", None)
        if stay is not None:
            self._over.append(stay._replace(end_ms=at_ms, how=how))

    def _epoch_ends(self, value: Value, at_ms: int) -> None:
        """End an epoch of a KIP-848 group: all members have reached the epoch, or the next epoch begins."""
        epoch, self._epoch = self._epoch, None
        if epoch is not None:
            self._partitions = value.get("partitions", self._partitions)
            self._reached(epoch, at_ms, value.get("paused_partition_ms", 0))
        if value["kind"] == events.EPOCH_BUMPED:
            if value["members"]:
                self._epoch = value
            else:
                self._reached(value, at_ms, 0)

    def _reached(self, epoch: Value, at_ms: int, cost_ms: int) -> None:
        trigger = epoch["trigger"] or {}
        before = [one for one in self.rebalances[-1:] if one.generation == epoch["epoch"] - 1]
        self.rebalances.append(
            Rebalance(
                epoch["epoch"],
                epoch["epoch"] - 1,
                epoch["time"],
                at_ms,
                epoch["cause"],
                trigger.get("member"),
                trigger.get("reason"),
                before[0].members_after if before else (0 if epoch["state"] == "Empty" else None),
                epoch["members"],
                self._partitions,
                cost_ms,
            )
        )

    def _ended(self, value: Value, at_ms: int) -> None:
        began, took_ms = self._started or {}, value.get("took_ms") or 0
        members, before = value.get("members") or [], value.get("before")
        for member in members:
            if member["member"] not in self.stays:  # the events do not include the join of this member
                was_there = before is None or member["member"] in before
                self._begins(member, at_ms - took_ms - (_BEFORE_MS if was_there else 0))
        moves = value.get("moves") or []
        after = sum(one[name] for one in moves for name in _SHARES)
        trigger = value.get("trigger") or began.get("trigger") or {}
        cooperative = "cooperative" in (value.get("protocol") or "")
        # in a cooperative group, the events do not show which partitions were given up in the round before
        unread = sum(one["gained"] for one in moves) if cooperative else after
        self.rebalances.append(
            Rebalance(
                value["generation"],
                began.get("generation"),
                at_ms - took_ms,
                at_ms,
                value.get("cause") or began.get("cause"),
                trigger.get("member"),
                trigger.get("reason"),
                len(value["before"]) if value.get("before") is not None else None,
                len(members),
                after or self._partitions,
                took_ms * unread,
            )
        )
        self._partitions = after
        self._started = None
