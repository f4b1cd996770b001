"""The core's events as log lines: why a group rebalanced, how long that took and who was put out of it.

Each rebalance is two lines at info (began, done); who was removed or fenced is one; members that come and go by
themselves are told at debug. Keeps nothing but when each rebalance that is not done began; decides nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import structlog

from muster.coordinator.clock import Clock
from muster.coordinator.groups import events
from muster.coordinator.groups.interface import Event

log = structlog.get_logger("muster.groups")


class GroupLog:
    """What a `Shard` is given as `on_event`; one for each, so that what it keeps ends with the groups of its shard."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._began_ms: dict[str, int] = {}

    def __call__(self, event: Event) -> None:
        """Tell of one event."""
        tell = _TELL.get(event.kind)
        if tell is None:
            log.debug(event.kind, group=event.group_id, **_known(event.facts))
        else:
            tell(self, event.group_id, event.facts)

    def _began(self, group: str, facts: dict[str, Any]) -> None:
        # a rebalance that begins before the last one is done goes on with it: the members were without work all along
        self._began_ms.setdefault(group, self._clock.now().mono_ms)
        log.info("a rebalance began", group=group, **_known(facts))

    def _done(self, group: str, facts: dict[str, Any]) -> None:
        log.info(
            "a rebalance is done",
            group=group,
            generation=facts["generation"],
            leader=facts["leader"],
            members=len(facts["assignments"]),
            **self._took(group),
        )

    def _emptied(self, group: str, facts: dict[str, Any]) -> None:
        log.info("a group has no members left", group=group, generation=facts["generation"], **self._took(group))

    def _deleted(self, group: str, _facts: dict[str, Any]) -> None:
        self._began_ms.pop(group, None)
        log.info("a group was deleted", group=group)

    def _removed(self, group: str, facts: dict[str, Any]) -> None:
        log.info("a member was removed", group=group, **_known(facts))

    def _fenced(self, group: str, facts: dict[str, Any]) -> None:
        log.info("a static member took the place of its predecessor, which is fenced", group=group, **_known(facts))

    def _took(self, group: str) -> dict[str, int]:
        began_ms = self._began_ms.pop(group, None)
        return {} if began_ms is None else {"took_ms": self._clock.now().mono_ms - began_ms}


def _known(facts: dict[str, Any]) -> dict[str, Any]:
    """Without what nobody said: no reason, no instance, no trigger."""
    return {name: value for name, value in facts.items() if value not in (None, "")}


_TELL: Final[dict[str, Callable[[GroupLog, str, dict[str, Any]], None]]] = {
    events.REBALANCE_BEGAN: GroupLog._began,
    events.ASSIGNED: GroupLog._done,
    events.EMPTIED: GroupLog._emptied,
    events.GROUP_DELETED: GroupLog._deleted,
    events.MEMBER_REMOVED: GroupLog._removed,
    events.MEMBER_REPLACED: GroupLog._fenced,
}
