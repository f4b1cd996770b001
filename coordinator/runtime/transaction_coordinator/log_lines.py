"""Log lines about transactional ids.

Aborts by the coordinator, and the replacement of a producer, are logged at info, all other events at debug.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Any, Final

import structlog

from muster.coordinator.system.logging.output import LEVELS
from muster.coordinator.transactions import events
from muster.coordinator.transactions.events import Event

log = structlog.get_logger("muster.transactions")
_is_enabled: Final = LEVELS.logger("muster.transactions").isEnabledFor
"""`log.is_enabled_for`, in a fifth of the time."""


def log_events(happened: Sequence[Event]) -> None:
    """Log events, in their order."""
    is_debug = _is_enabled(logging.DEBUG)
    for event in happened:
        line = _line(event) if event.kind in _AT_INFO else None
        if line is not None:
            log.info(line, **_fields(event))
        elif is_debug:
            log.debug(event.kind.replace("_", " "), **_fields(event))


_AT_INFO: Final = (events.ENDING, events.INITIALIZED, events.EXPIRED)


def _line(event: Event) -> str | None:
    kind, facts = event.kind, event.facts
    if kind == events.ENDING and facts["cause"] != events.BY_CLIENT:
        return "a transaction is aborted"
    if kind == events.INITIALIZED and facts["fenced_producer_id"] != -1:
        return "a producer took a transactional id over; the previous producer is fenced"
    if kind == events.EXPIRED:
        return "a transactional id expired"
    return None


def _fields(event: Event) -> dict[str, Any]:
    facts: dict[str, Any] = {name: value for name, value in event.facts.items() if value not in (None, "", -1)}
    facts.pop("topics", None)
    if facts.get("cause") in events.WORDS:
        facts["cause"] = events.WORDS[facts["cause"]]
    return {"transactional_id": event.transactional_id, "producer_id": event.producer_id,
            "producer_epoch": event.producer_epoch, **facts}  # fmt: skip
