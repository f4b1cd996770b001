"""A group whose events are made by hand, and what alerts say of it."""

from __future__ import annotations

from typing import Any

from muster.coordinator.alerts.commits import Commit
from muster.coordinator.alerts.group_watch import GroupWatch
from muster.coordinator.groups.common import events
from muster.coordinator.groups.common.events import Event, MemberFacts, Trigger
from muster.pipeline.episodes.model import Moment
from muster.protocol.errors import ErrorCode

START_MS = 1_750_000_000_000
SECOND = 1_000
MINUTE = 60_000


class Story:
    """Times pass by `later`. The name of a member is its client id, or its instance id."""

    def __init__(self, *names: str, instances: bool = False, session_ms: int = 10_000) -> None:
        self.watch = GroupWatch()
        self.now_ms = START_MS
        self._instances = instances
        self._session_ms = session_ms
        self._members: dict[str, MemberFacts] = {}
        self._number = self._generation = 0
        if names:
            for name in names:
                self._joins(name)
            self.rebalances(events.NEW_MEMBER, names[0], before=0)

    def later(self, ms: int) -> Story:
        self.now_ms += ms
        return self

    def see(self, kind: str, **facts: Any) -> None:
        self.watch.feed(Event(kind, "g", facts), self.now_ms)

    def _joins(self, name: str, host: str | None = None) -> MemberFacts:
        self._number += 1
        where = host or f"/10.0.0.{sum(name.encode()) % 251}"
        member = MemberFacts(f"{name}-{self._number}", name if self._instances else None, name, where, self._session_ms,
                             300_000, (), None, None, None, b"")  # fmt: skip
        self._members[name] = member
        self.see(events.MEMBER_JOINED, member=member, protocol_type="consumer", reason=None)
        return member

    def joins(self, *names: str) -> Story:
        for name in names:
            self._joins(name)
        return self.rebalances(events.NEW_MEMBER, names[0])

    def goes(self, name: str, kind: str = events.MEMBER_LEFT, **facts: Any) -> Story:
        member = self._members.pop(name)
        self.see(kind, member=member, **({"reason": None} | facts if kind == events.MEMBER_LEFT else facts))
        cause = events.LEFT if kind == events.MEMBER_LEFT else facts.get("cause", events.SESSION_EXPIRED)
        return self.rebalances(cause, name, member, reason=facts.get("reason"))

    def restarts(self, name: str, away_ms: int = 20 * SECOND, kind: str = events.MEMBER_LEFT, **facts: Any) -> Story:
        return self.goes(name, kind, **facts).later(away_ms).joins(name)

    def is_replaced(self, name: str, host: str, *, is_refused: bool = True) -> Story:
        """Another process has the instance id; the former one is refused."""
        old = self._members[name]
        self._number += 1
        new = old._replace(member=f"{name}-{self._number}", host=host)
        self._members[name] = new
        self.see(events.MEMBER_REPLACED, member=new, replaced=old.member, reason=None)
        if is_refused:
            self.see(events.REQUEST_REFUSED, api="Heartbeat", error=ErrorCode.FENCED_INSTANCE_ID, client_id=name,
                     host=old.host, member=old.member, instance=name)  # fmt: skip
        return self

    def rebalances(self, cause: str, name: str, member: MemberFacts | None = None, *, before: int | None = None,
                   reason: str | None = None) -> Story:  # fmt: skip
        one = member or self._members[name]
        trigger = Trigger(one.member, one.instance, one.client_id, one.host, reason)
        count = len(self._members) if before is None else before
        self.see(events.REBALANCE_STARTED, cause=cause, trigger=trigger, generation=self._generation, members=count,
                 state="Stable")  # fmt: skip
        self._generation += 1
        self.later(SECOND)
        if not self._members:
            self.see(events.GROUP_EMPTIED, generation=self._generation, took_ms=SECOND)
            return self
        facts = {"cause": cause, "trigger": trigger, "join_phase_ms": 0, "sync_phase_ms": 0, "took_ms": SECOND}
        facts |= {"protocol_type": "consumer", "protocol": "range", "votes": {}, "leader": one.member, "before": {}}
        facts |= {"members": tuple(self._members.values()), "topics": {}, "settings": None}
        self.see(events.REBALANCE_COMPLETED, generation=self._generation, **facts)
        return self

    def commits(self, *rows: tuple[int, int], every_ms: int = 15 * SECOND, is_new: bool = True) -> Story:
        """A sample: offset and end of each partition. `is_new`: the offsets were committed just now."""
        self.later(every_ms)
        if is_new:
            self._committed_ms = self.now_ms
        for index, (offset, end) in enumerate(rows):
            self.watch.commits.see(Commit(("t", index), offset, self._committed_ms, end), self.now_ms)
        self.watch.commits.end(self.now_ms)
        return self

    def rules(self, moments: tuple[Moment, ...] = ()) -> list[str]:
        return [one.rule for one in self.watch.claims(self.now_ms, moments)]

    def texts(self) -> list[str]:
        return [one.text for one in self.watch.claims(self.now_ms, ())]
