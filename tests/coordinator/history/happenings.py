"""Events of transactional ids as the core reports them."""

from __future__ import annotations

from muster.coordinator.transactions import events
from muster.coordinator.transactions.events import Event

START = 1_700_000_000_000
ID = "pay-1"


def initialized(cause: str = events.NEW_ID, *, fenced: tuple[int, int] = (-1, -1), epoch: int = 0) -> Event:
    facts: dict[str, object] = {
        "cause": cause, "timeout_ms": 60_000, "client_id": "c", "host": "/127.0.0.1",
        "fenced_producer_id": fenced[0], "fenced_producer_epoch": fenced[1],
    }  # fmt: skip
    return Event(events.INITIALIZED, ID, 4000, epoch, facts)


def begun(start_ms: int = START, epoch: int = 0) -> Event:
    facts: dict[str, object] = {
        "start_ms": start_ms, "timeout_ms": 60_000, "client_id": "c", "host": "/127.0.0.1",
    }  # fmt: skip
    return Event(events.BEGUN, ID, 4000, epoch, facts)


def added(topics: dict[str, list[int]], start_ms: int = START, epoch: int = 0) -> Event:
    count = sum(map(len, topics.values()))
    return Event(
        events.PARTITIONS_ADDED, ID, 4000, epoch, {"topics": topics, "start_ms": start_ms, "partitions": count}
    )


def ending(cause: str = events.BY_CLIENT, *, is_committed: bool = True, open_ms: int = 1_500, epoch: int = 0) -> Event:
    asked = cause == events.BY_CLIENT
    facts: dict[str, object] = {
        "is_committed": is_committed, "cause": cause, "start_ms": START, "open_ms": open_ms, "partitions": 3,
        "version": 2, "client_id": "c" if asked else "", "host": "/127.0.0.1" if asked else "",
    }  # fmt: skip
    return Event(events.ENDING, ID, 4000, epoch, facts)


def ended(kind: str = events.COMMITTED, cause: str | None = events.BY_CLIENT, epoch: int = 0) -> Event:
    facts: dict[str, object] = {
        "cause": cause, "start_ms": START, "took_ms": 1_507, "markers_ms": 7 if cause else None,
        "topics": {"orders": [0, 2], "__consumer_offsets": [7]}, "version": 2, "next_producer_id": 4000,
        "next_producer_epoch": epoch + 1,
    }  # fmt: skip
    return Event(kind, ID, 4000, epoch, facts)


def fenced(api: str = "EndTxn", client: str = "c") -> Event:
    facts: dict[str, object] = {
        "api": api, "error": 90, "client_id": client, "host": "/127.0.0.1", "current_producer_id": 4000,
        "current_producer_epoch": 1,
    }  # fmt: skip
    return Event(events.FENCED, ID, 4000, 0, facts)


def refused(error: int = 48) -> Event:
    facts: dict[str, object] = {"api": "EndTxn", "error": error, "client_id": "c", "host": "/127.0.0.1"}
    return Event(events.REQUEST_REFUSED, ID, 4000, 0, facts)


def expired() -> Event:
    return Event(events.EXPIRED, ID, 4000, 3, {"idle_ms": 604_800_000, "state": "CompleteCommit"})
