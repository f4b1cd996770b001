"""Log lines about groups: why a group rebalanced, how long that took and which members were removed.

The start and the end of a rebalance are a line each at info. So is a member that expired, was removed or was fenced.
Members that join and leave by themselves, and refused requests, are logged at debug.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any, Final

import structlog

from muster.coordinator.groups.common import events
from muster.coordinator.groups.common.events import Event, MemberFacts, Trigger
from muster.coordinator.groups.common.image import TopicsImage

log = structlog.get_logger("muster.groups")


def log_event(event: Event) -> None:
    """Log one event."""
    found = _LINES.get(event.kind)
    if found is not None:
        line, fields = found
        log.info(line, group=event.group_id, **fields(event.facts))
    elif log.is_enabled_for(logging.DEBUG):
        log.debug(event.kind.replace("_", " "), group=event.group_id, **_plain(event.facts))


def _started(facts: dict[str, Any]) -> dict[str, Any]:
    who: Trigger | None = facts["trigger"]
    trigger = {} if who is None else {"trigger": who.member, "instance": who.instance, "reason": who.reason}
    return {"cause": events.WORDS[facts["cause"]], "generation": facts["generation"], "members": facts["members"],
            **_without_empty(trigger)}  # fmt: skip


def _completed(facts: dict[str, Any]) -> dict[str, Any]:
    return {"generation": facts["generation"], "leader": facts["leader"], "members": len(facts["members"]),
            "took_ms": facts["took_ms"]}  # fmt: skip


def _expired(facts: dict[str, Any]) -> dict[str, Any]:
    member: MemberFacts = facts["member"]
    return {"cause": events.WORDS[events.SESSION_EXPIRED], "session_timeout_ms": member.session_timeout_ms,
            **_who(member)}  # fmt: skip


def _reconciled(facts: dict[str, Any]) -> dict[str, Any]:
    names = ("epoch", "members", "changed", "took_ms")
    cause = {} if facts["cause"] is None else {"cause": events.WORDS[facts["cause"]]}
    return cause | {name: facts[name] for name in names}


def _migrated(facts: dict[str, Any]) -> dict[str, Any]:
    who: Trigger | None = facts["trigger"]
    return {"epoch": facts["epoch"], "members": facts["members"], **({} if who is None else {"trigger": who.member})}


def _who(member: MemberFacts) -> dict[str, Any]:
    return _without_empty({"member": member.member, "instance": member.instance, "client_id": member.client_id,
                           "host": member.host})  # fmt: skip


def _plain(facts: dict[str, Any]) -> dict[str, Any]:
    who = facts.get("member")
    return _without_empty(facts | _who(who) if isinstance(who, MemberFacts) else facts)


def _without_empty(facts: dict[str, Any]) -> dict[str, Any]:
    """The facts that are short, and that the client has sent."""
    return {
        name: value for name, value in facts.items() if value not in (None, "") and not isinstance(value, _MANY_WORDS)
    }


_MANY_WORDS: Final = (list, tuple, dict, TopicsImage)

_LINES: Final[dict[str, tuple[str, Callable[[dict[str, Any]], dict[str, Any]]]]] = {
    events.REBALANCE_STARTED: ("a rebalance began", _started),
    events.REBALANCE_COMPLETED: ("a rebalance is done", _completed),
    events.GROUP_EMPTIED: ("a group has no members left", dict),
    events.GROUP_DELETED: ("a group was deleted", lambda _: {}),
    events.EPOCH_RECONCILED: ("all members have their new assignments", _reconciled),
    events.TARGET_FAILED: ("the assignor failed; the assignments that are in force stay", dict),
    events.GROUP_UPGRADED: ("a classic group has become a consumer group", _migrated),
    events.GROUP_DOWNGRADED: ("a consumer group has become a classic group", _migrated),
    events.MEMBER_EXPIRED: ("a member was removed", _expired),
    events.MEMBER_REMOVED: (
        "a member was removed", lambda facts: {"cause": events.WORDS[facts["cause"]], **_who(facts["member"])}
    ),
    events.MEMBER_REPLACED: (
        "a static member took the place of its predecessor, which is fenced",
        lambda facts: {"replaced": facts["replaced"], **_who(facts["member"])},
    ),
}  # fmt: skip
