"""The facts of events that the pipeline's rules need, in the form of `__group_events`, without the text of an event.

An event of a large group takes some time: a thread makes the values.
"""

from __future__ import annotations

from typing import Any, Final

from muster.assignors.measures import finish, moves_in_steps
from muster.coordinator.groups.classic.group import CONSUMER
from muster.coordinator.groups.common import events
from muster.coordinator.groups.common.events import Event, MemberFacts, Trigger
from muster.coordinator.history import ownership

KINDS: Final = frozenset(
    {
        events.MEMBER_JOINED, events.MEMBER_REPLACED, events.MEMBER_LEFT, events.MEMBER_EXPIRED, events.MEMBER_REMOVED,
        events.REBALANCE_STARTED, events.REBALANCE_COMPLETED, events.GROUP_EMPTIED, events.EPOCH_BUMPED,
        events.EPOCH_RECONCILED, events.GROUP_DOWNGRADED, events.GROUP_DELETED,
    }
)  # fmt: skip
"""The events that members and rebalances are made of."""
REMEMBERED: Final = KINDS | {
    events.DELIVERIES_FAILED, events.TOPICS_NOT_READY, events.TOPICS_READY, events.APPLICATION_SHUTDOWN,
}  # fmt: skip
"""The events of the history that are read after a restart."""


def value_of(event: Event, wall_ms: int) -> dict[str, Any]:
    """The value of an event of `KINDS`."""
    facts: dict[str, Any] = event.facts
    value = {"kind": event.kind, "group": event.group_id, "time": wall_ms, **facts}
    if isinstance(facts.get("member"), MemberFacts):
        value["member"] = _member(facts["member"])
    if isinstance(facts.get("trigger"), Trigger):
        value["trigger"] = facts["trigger"]._asdict()
    if event.kind == events.REBALANCE_COMPLETED:
        value["members"] = [_member(one) for one in facts["members"]]
        value["before"] = [*facts["before"]]
        value["moves"] = _moves(facts)
    return value


def _member(member: MemberFacts) -> dict[str, Any]:
    return {
        "member": member.member,
        "instance": member.instance,
        "client_id": member.client_id,
        "host": member.host,
        "session_timeout_ms": member.session_timeout_ms,
        "rebalance_timeout_ms": member.rebalance_timeout_ms,
    }


def _moves(facts: dict[str, Any]) -> list[dict[str, int]]:
    if facts["protocol_type"] != CONSUMER:
        return []
    now = finish(ownership.read((one.member, one.assignment) for one in facts["members"]))
    then = finish(ownership.read(facts["before"].items()))
    if now is None or then is None:
        return []
    moved = finish(moves_in_steps(then, now)).values()
    return [{"kept": one.kept, "moved": one.moved, "gained": one.gained, "lost": one.lost} for one in moved]
