"""Errors in answers are counted, not listed."""

from __future__ import annotations

from muster.coordinator.groups.common import events
from muster.coordinator.groups.common.events import Event
from muster.coordinator.history.counts import LONGEST, MAX_BYTES, MAX_KINDS, RefusalCounts, is_cut


def refusal(client: str = "c", error: int = 25, group: str = "g") -> Event:
    facts = {"api": "Heartbeat", "error": error, "client_id": client, "host": "/h", "member": "m", "instance": None}
    return Event(events.REQUEST_REFUSED, group, facts)


def test_equal_refusals_become_one_row_with_a_count() -> None:
    refused = RefusalCounts()
    assert refused.began_ms is None
    for at in (5, 6, 7):
        refused.add(refusal(), at)
    refused.add(refusal(error=22), 8)
    assert refused.began_ms == 5
    who = {"api": "Heartbeat", "client_id": "c", "host": "/h", "instance": None}
    assert list(refused.take()) == [
        ("g", 5, {"error_code": 25, "count": 3, **who}),
        ("g", 8, {"error_code": 22, "count": 1, **who}),
    ]
    assert (refused.began_ms, list(refused.take())) == (None, [])


def test_a_flood_of_names_does_not_fill_the_log() -> None:
    refused = RefusalCounts()
    for number in range(10 * MAX_KINDS):
        refused.add(refusal(client=str(number)), number)
    refused.add(refusal(client="0"), 5)
    rows = list(refused.take())
    assert len(rows) == MAX_KINDS + 1
    assert rows[0][2]["count"] == 2
    assert rows[-1] == (
        None,
        MAX_KINDS,
        {"api": None, "error_code": None, "client_id": None, "host": None, "instance": None, "count": 9 * MAX_KINDS},
    )


def test_long_names_in_refusals_are_shortened() -> None:
    refused = RefusalCounts()
    for end in ("x", "y"):
        refused.add(refusal(client="c" * 30_000, group="ü" * (LONGEST + 1) + end), 5)
    refused.add(refusal(client="c" * LONGEST), 5)
    (group, _, facts), (_, _, other) = refused.take()
    assert group == "ü" * LONGEST + "…"
    assert is_cut(group)
    assert (facts["client_id"], facts["count"]) == ("c" * LONGEST + "…", 2)
    assert other["client_id"] == "c" * LONGEST
    assert not is_cut(other["client_id"])


def test_the_names_of_refusals_in_a_second_are_bounded_in_bytes() -> None:
    refused = RefusalCounts()
    for _ in range(2):  # a new count each second
        for number in range(MAX_KINDS):
            event = refusal(client=f"{number}" + "ü" * 30_000, group=f"{number}" + "ü" * 30_000)
            event.facts["instance"] = "ü" * 30_000
            refused.add(event, 5)
        rows = list(refused.take())
        reported = [name for group, _, facts in rows for name in (group, facts["client_id"], facts["instance"]) if name]
        assert MAX_BYTES - 2_000 < sum(len(name.encode()) for name in reported) <= MAX_BYTES
        assert rows[-1][2]["count"] == MAX_KINDS - (len(rows) - 1)
