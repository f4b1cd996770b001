"""Events as the pages show them: short, with a sentence, without the bytes of clients. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from muster.coordinator.history.timeline import Timeline
from muster.coordinator.http.console.sources import StoredEvent

KEPT_TIMELINES: Final = 1_000
"""The most groups whose last events are remembered for later sentences."""
MAX_MEMBERS: Final = 200
"""The most members of one event."""
_BYTES: Final = ("protocols", "assignment_base64")
_REBALANCES: Final = ("rebalance_completed", "epoch_reconciled")
REFUSALS: Final = ("requests_refused", "member_fenced", "producer_fenced")


class Sentences:
    """Makes sentences of events in the order of their time."""

    def __init__(self) -> None:
        self._timelines: dict[str | None, Timeline] = {}

    def of(self, event: StoredEvent) -> dict[str, Any]:
        """The event for a page. `text` is its sentence. `line`: its line in the history; None without one."""
        value = event.value
        group = value.get("group")
        known = self._timelines.pop(group, None)
        if known is None:
            if len(self._timelines) >= KEPT_TIMELINES:
                self._timelines.pop(next(iter(self._timelines)))
            known = Timeline(dates=False, everything=True)
        self._timelines[group] = known
        if "sentence" in value:  # the event is inferred
            return {"id": event.id, "text": value["sentence"], **_short(value)}
        try:
            text = known.text(value) or value["kind"].replace("_", " ")
        except (KeyError, TypeError):  # another version of Muster wrote the event
            text = value["kind"].replace("_", " ")
        return {"id": event.id, "text": text, **_short(value)}


def shown(events: Iterable[StoredEvent]) -> list[dict[str, Any]]:
    """The events of one group for a page."""
    sentences = Sentences()
    return [sentences.of(one) for one in events]


def is_rebalance(value: dict[str, Any]) -> bool:
    """Whether the event ends a rebalance."""
    return value["kind"] in _REBALANCES or (value["kind"] == "epoch_bumped" and not value.get("members"))


def _short(value: dict[str, Any]) -> dict[str, Any]:
    found = {name: one for name, one in value.items() if name not in ("v", "before", "sentence", "settings", "votes")}
    for name in ("member", "trigger"):
        if isinstance(found.get(name), dict):
            found[name] = _member(found[name])
    if isinstance(found.get("members"), list):
        found["member_count"] = len(found["members"])
        found["members"] = [_member(one) for one in found["members"][:MAX_MEMBERS]]
    return found


def _member(value: dict[str, Any]) -> dict[str, Any]:
    return {name: one for name, one in value.items() if name not in _BYTES}
