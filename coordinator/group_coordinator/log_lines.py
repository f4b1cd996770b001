"""The core's events as log lines: why a group rebalanced, how long that took and who was put out of it.

Each rebalance is two lines at info (began, done); who expired, was removed or fenced is one; members that come and go
by themselves are told at debug, and so is what was refused. Keeps nothing; decides nothing.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any, Final

import structlog

from muster.coordinator.groups.common import events
from muster.coordinator.groups.common.events import Event, MemberFacts, Trigger

log = structlog.get_logger("muster.groups")


def log_event(event: Event) -> None:
    """Tell of one event."""
    tell = _TELL.get(event.kind)
    if tell is not None:
        tell(event.group_id, event.facts)
    elif log.is_enabled_for(logging.DEBUG):
        log.debug(event.kind.replace("_", " "), group=event.group_id, **_plain(event.facts))


def _started(group: str, facts: dict[str, Any]) -> None:
    who: Trigger | None = facts["trigger"]
    known = {} if who is None else {"trigger": who.member, "instance": who.instance, "reason": who.reason}
    log.info("a rebalance began", group=group, cause=events.WORDS[facts["cause"]], generation=facts["generation"],
             members=facts["members"], **_said(known))  # fmt: skip


def _completed(group: str, facts: dict[str, Any]) -> None:
    log.info("a rebalance is done", group=group, generation=facts["generation"], leader=facts["leader"],
             members=len(facts["members"]), took_ms=facts["took_ms"])  # fmt: skip


def _emptied(group: str, facts: dict[str, Any]) -> None:
    log.info("a group has no members left", group=group, **facts)


def _deleted(group: str, _facts: dict[str, Any]) -> None:
    log.info("a group was deleted", group=group)


def _expired(group: str, facts: dict[str, Any]) -> None:
    member: MemberFacts = facts["member"]
    log.info("a member was removed", group=group, cause=events.WORDS[events.SESSION_EXPIRED],
             session_timeout_ms=member.session_timeout_ms, **_who(member))  # fmt: skip


def _removed(group: str, facts: dict[str, Any]) -> None:
    log.info("a member was removed", group=group, cause=events.WORDS[facts["cause"]], **_who(facts["member"]))


def _replaced(group: str, facts: dict[str, Any]) -> None:
    log.info("a static member took the place of its predecessor, which is fenced", group=group,
             replaced=facts["replaced"], **_who(facts["member"]))  # fmt: skip


def _who(member: MemberFacts) -> dict[str, Any]:
    return _said({"member": member.member, "instance": member.instance, "client_id": member.client_id,
                  "host": member.host})  # fmt: skip


def _plain(facts: dict[str, Any]) -> dict[str, Any]:
    who = facts.get("member")
    return _said(facts | _who(who) if isinstance(who, MemberFacts) else facts)


def _said(facts: dict[str, Any]) -> dict[str, Any]:
    """Without what nobody said: no reason, no instance."""
    return {name: value for name, value in facts.items() if value not in (None, "")}


_TELL: Final[dict[str, Callable[[str, dict[str, Any]], None]]] = {
    events.REBALANCE_STARTED: _started,
    events.REBALANCE_COMPLETED: _completed,
    events.GROUP_EMPTIED: _emptied,
    events.GROUP_DELETED: _deleted,
    events.MEMBER_EXPIRED: _expired,
    events.MEMBER_REMOVED: _removed,
    events.MEMBER_REPLACED: _replaced,
}
