"""Refusals are counted, not listed."""

from __future__ import annotations

from muster.coordinator.groups import events
from muster.coordinator.groups.interface import Event
from muster.coordinator.observe.refused import MOST_KINDS, Refused


def refusal(client: str = "c", error: int = 25, group: str = "g") -> Event:
    facts = {"api": "Heartbeat", "error": error, "client_id": client, "host": "/h", "member": "m", "instance": None}
    return Event(events.REQUEST_REFUSED, group, facts)


def test_the_same_refusal_is_one_row_with_a_count() -> None:
    refused = Refused()
    assert refused.began_ms is None
    for at in (5, 6, 7):
        refused.add(refusal(), at)
    refused.add(refusal(error=22), 8)
    assert refused.began_ms == 5
    who = {"api": "Heartbeat", "client_id": "c", "host": "/h", "instance": None}
    assert list(refused.take()) == [
        ("g", {"error_code": 25, "count": 3, **who}),
        ("g", {"error_code": 22, "count": 1, **who}),
    ]
    assert (refused.began_ms, list(refused.take())) == (None, [])


def test_a_flood_of_names_does_not_fill_the_log() -> None:
    refused = Refused()
    for number in range(10 * MOST_KINDS):
        refused.add(refusal(client=str(number)), 5)
    refused.add(refusal(client="0"), 5)
    rows = list(refused.take())
    assert len(rows) == MOST_KINDS + 1
    assert rows[0][1]["count"] == 2
    assert rows[-1] == (
        None,
        {"api": None, "error_code": None, "client_id": None, "host": None, "instance": None, "count": 9 * MOST_KINDS},
    )
