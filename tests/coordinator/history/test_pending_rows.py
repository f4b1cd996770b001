"""Events of large groups are made in pieces, in their order, and never longer than the limit."""

from __future__ import annotations

import json
from base64 import b64decode
from binascii import b2a_base64
from collections.abc import Callable

import pytest

from muster.coordinator.groups.common import events
from muster.coordinator.groups.common.events import Event, MemberFacts
from muster.coordinator.groups.common.image import TopicsImage
from muster.coordinator.history import schema
from muster.coordinator.history.journal import BYTES_AS_A_PIECE, MAX_ROWS_WAITING, PIECES_AT_ONCE, PendingRows
from muster.coordinator.history.schema import (
    BYTES_A_PIECE,
    MAX_BYTES,
    MAX_METADATA,
    MAX_METADATA_OF_ALL,
    PARTITIONS_A_PIECE,
)
from tests.coordinator.history.test_schema import assignment, completed, member

CREATED = Event(events.GROUP_CREATED, "g", {})
MEMBERS = 1_000
MAX_OF_A_PIECE = 3 * BYTES_A_PIECE
"""One piece may be, for example, all names of the members before."""


def large(members: int = MEMBERS, topics: int = 10) -> Event:
    """A rebalance in which each member took over another member's partitions."""
    names = [f"topic-{number}" for number in range(topics)]
    owned = [assignment(**{name: [number] for name in names}) for number in range(members)]
    return completed(
        members=tuple(member(f"m{number}", owned[number]) for number in range(members)),
        before={f"m{number}": owned[number - 1] for number in range(members)},
    )


def failed(members: int) -> Event:
    facts = {"generation": 3, "cause": events.NEW_MEMBER, "join_phase_ms": None, "took_ms": 5}
    return Event(events.REBALANCE_FAILED, "g", {**facts, "members": (member(),) * members})


def synced(members: int) -> Event:
    facts: dict[str, object] = {"generation": 3, "synced": {f"m{number}": number for number in range(members)}}
    return Event(events.MEMBERS_SYNCED, "g", facts)


def joined(*protocols: tuple[str, bytes]) -> Event:
    facts: dict[str, object] = {
        "member": member()._replace(protocols=protocols),
        "protocol_type": "consumer",
        "reason": None,
    }
    return Event(events.MEMBER_JOINED, "g", facts)


class PendingRowsHarness:
    def __init__(self) -> None:
        self.lost: list[tuple[str, str]] = []
        self.writing = PendingRows(lambda event, why: self.lost.append((event.kind, why)))

    def kinds(self) -> list[str]:
        return [json.loads(value)["kind"] for _, value in self.writing.rows]


def test_a_large_event_is_made_in_small_pieces() -> None:
    event = large()
    made = list(schema.pieces(event, 1_000))
    assert max(len(piece or "") for piece in made) < MAX_OF_A_PIECE
    value = json.loads("".join(filter(None, made)))
    assert [one["member"] for one in value["members"]] == [f"m{number}" for number in range(MEMBERS)]
    assert value["members"][7]["assignment"][2] == {"topic": "topic-2", "partitions": [7]}
    assert value["moves"][3] == {"topic": "topic-3", "kept": 0, "moved": MEMBERS, "gained": 0, "lost": 0}
    # reading costs iterations, too: the assignments twice, then the moves
    assert made.count(None) > MEMBERS * 10 * 2 // 500


@pytest.mark.parametrize("make", [failed, synced])
def test_other_large_events_are_made_in_small_pieces(make: Callable[[int], Event]) -> None:
    made = list(schema.pieces(make(MEMBERS), 1_000))
    assert max(len(piece or "") for piece in made) < MAX_OF_A_PIECE
    value = json.loads("".join(filter(None, made)))
    assert len(value["members" if make is failed else "synced"]) == MEMBERS


def test_a_large_event_takes_several_iterations_and_later_events_wait() -> None:
    harness = PendingRowsHarness()
    harness.writing.add(CREATED, 1_000)
    assert harness.kinds() == ["group_created"]
    harness.writing.add(large(), 1_000)
    harness.writing.add(CREATED, 1_000)
    harness.writing.add(joined(("range", b"")), 1_000)
    assert harness.kinds() == ["group_created"]
    turns = 0
    while harness.writing.is_behind:
        harness.writing.go_on()
        turns += 1
    assert harness.kinds() == ["group_created", "rebalance_completed", "group_created", "member_joined"]
    assert harness.writing.rows[1] == (b"g", schema.to_json(large(), 1_000))
    assert turns >= len(list(schema.pieces(large(), 1_000))) // PIECES_AT_ONCE
    assert harness.lost == []


def test_many_waiting_events_are_written_over_several_iterations() -> None:
    harness = PendingRowsHarness()
    harness.writing.add(large(), 1_000)
    for _ in range(100):
        harness.writing.add(synced(1), 1_000)
    while not harness.writing.rows:
        harness.writing.go_on()
    assert len(harness.writing.rows) <= PIECES_AT_ONCE
    harness.writing.finish()
    assert len(harness.writing.rows) == 101
    assert not harness.writing.is_behind


def test_a_steady_flow_of_short_events_is_not_delayed_without_bound() -> None:
    harness = PendingRowsHarness()
    harness.writing.add(large(), 1_000)
    turns = 0
    while harness.writing.is_behind:
        for _ in range(200):
            harness.writing.add(joined(("range", b"")), 1_000)
        harness.writing.go_on()
        turns += 1
        assert turns < len(list(schema.pieces(large(), 1_000)))
    assert len(harness.writing.rows) == 1 + 200 * turns


def test_events_of_a_group_that_rebalances_very_often_are_bounded_in_memory() -> None:
    harness = PendingRowsHarness()
    event = failed(MAX_ROWS_WAITING // 4)
    for _ in range(6):
        harness.writing.add(event, 1_000)
    why = f"events of {MAX_ROWS_WAITING} members are before it, and not written yet"
    assert harness.lost == [("rebalance_failed", why)] * 2
    harness.writing.finish()
    assert harness.kinds() == ["rebalance_failed"] * 4
    harness.writing.add(large(10), 1_000)
    assert len(harness.lost) == 2


def test_large_metadata_is_reported_only_by_its_size(monkeypatch: pytest.MonkeyPatch) -> None:
    encoded: list[int] = []

    def encode(data: bytes, *, newline: bool) -> bytes:
        encoded.append(len(data))
        return b2a_base64(data, newline=newline)

    monkeypatch.setattr(schema, "b2a_base64", encode)
    harness = PendingRowsHarness()
    harness.writing.add(joined(("a", b"abc"), ("b", bytes(MAX_METADATA)), ("c", bytes(MAX_METADATA - 3))), 1_000)
    harness.writing.add(joined(*((f"p{number}", bytes(10_000)) for number in range(17)), ("n" * 30_000, b"")), 1_000)
    first, second = (json.loads(value)["member"]["protocols"] for _, value in harness.writing.rows)
    assert first[0] == {"name": "a", "metadata": "YWJj"}
    assert first[1] == {"name": "b", "metadata": None, "metadata_bytes": MAX_METADATA}
    assert b64decode(first[2]["metadata"]) == bytes(MAX_METADATA - 3)
    assert [one["metadata"] is None for one in second] == [False] * 6 + [True] * 11 + [False]
    assert second[17]["name"] == "n" * 248 + "…"
    assert sum(encoded) <= 2 * MAX_METADATA
    assert harness.lost == []


def test_the_metadata_of_all_members_in_an_event_is_bounded() -> None:
    fat = member()._replace(protocols=(("range", bytes(60_000)),))
    thin = member()._replace(protocols=(("range", b"thin"),))
    facts = failed(0).facts | {"members": (fat,) * 200 + (thin,)}
    made = list(schema.pieces(Event(events.REBALANCE_FAILED, "g", facts), 1_000))
    assert max(len(piece or "") for piece in made) < 100_000
    members = json.loads("".join(filter(None, made)))["members"]
    reported = [one["protocols"][0]["metadata"] is not None for one in members]
    assert reported == [*sorted(reported[:200], reverse=True), True]
    assert reported.count(True) == MAX_METADATA_OF_ALL // 60_000 + 1
    assert members[199]["protocols"] == [{"name": "range", "metadata": None, "metadata_bytes": 60_000}]


def test_many_events_with_much_metadata_are_made_over_several_iterations() -> None:
    """A LeaveGroup of 200 bytes removes 300 members, and the event of each member has its metadata."""
    harness = PendingRowsHarness()
    for _ in range(300):
        harness.writing.add(joined(("range", bytes(60_000))), 1_000)
    turns = [sum(len(value) for _, value in harness.writing.rows)]
    while harness.writing.is_behind:
        harness.writing.rows.clear()
        harness.writing.go_on()
        turns.append(sum(len(value) for _, value in harness.writing.rows))
    assert max(turns) <= PIECES_AT_ONCE * BYTES_AS_A_PIECE + 2 * MAX_METADATA
    assert sum(turns) > 300 * 80_000
    harness.writing.go_on()
    harness.writing.add(CREATED, 1_000)
    assert not harness.writing.is_behind


def test_the_event_of_a_target_with_many_topics_is_made_in_steps() -> None:
    topics = [number.to_bytes(16) for number in range(20_000)]
    image = TopicsImage({}, 1, {topic: f"t{number}" for number, topic in enumerate(topics)})
    changes = (("m", (), tuple((topic, (0, 1)[: 1 + number % 2]) for number, topic in enumerate(topics))),)
    facts: dict[str, object] = {"epoch": 2, "changes": changes, "names": image}
    made = list(schema.pieces(Event(events.TARGET_ASSIGNED, "g", facts), 1_000))
    assert made.count(None) >= 2 * 50_000 // PARTITIONS_A_PIECE - 2
    value = json.loads("".join(filter(None, made)))
    assert (value["changed"], value["moved"], value["gained"], value["lost"]) == (1, 0, 30_000, 0)
    assert [row["topic"] for row in value["moves"]] == sorted(f"t{number}" for number in range(20_000))[:20]


def test_the_event_of_many_offsets_is_made_in_pieces() -> None:
    topics = {f"t{number}": list(range(1_500)) for number in range(40)} | {"u": [1]}
    facts: dict[str, object] = {"cause": events.ASKED, "topics": topics}
    made = list(schema.pieces(Event(events.OFFSETS_DELETED, "g", facts), 1_000))
    assert max(len(piece or "") for piece in made) < 20_000
    assert json.loads("".join(filter(None, made)))["topics"] == topics


def test_the_event_of_many_subscribed_topics_is_made_in_pieces() -> None:
    topics = {f"topic-{number:05}": 1 for number in range(20_000)}
    event = completed(members=(), before={})
    made = list(schema.pieces(event._replace(facts=event.facts | {"topics": topics}), 1_000))
    assert max(len(piece or "") for piece in made) < MAX_OF_A_PIECE
    assert json.loads("".join(filter(None, made)))["topics"] == topics


def test_an_event_too_large_by_its_member_count_is_not_encoded(monkeypatch: pytest.MonkeyPatch) -> None:
    def text(*_: object) -> str:
        raise AssertionError("the text of a member was made")

    monkeypatch.setattr(schema, "_member", text)
    harness = PendingRowsHarness()
    harness.writing.add(failed(MAX_BYTES // 200 + 1), 1_000)
    assert [kind for kind, _ in harness.lost] == ["rebalance_failed"]
    assert not harness.writing.is_behind


def test_an_event_that_becomes_too_large_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(schema, "MAX_BYTES", 100_000)
    harness = PendingRowsHarness()
    harness.writing.add(large(300), 1_000)
    harness.writing.add(synced(20_000), 1_000)
    harness.writing.add(CREATED, 1_000)
    harness.writing.finish()
    assert [kind for kind, _ in harness.lost] == ["rebalance_completed", "members_synced"]
    assert harness.kinds() == ["group_created"]


def test_long_metadata_is_not_cached() -> None:
    # otherwise it would stay in memory long after its member
    before = schema._short_protocols.cache_info().currsize
    for number in range(5):
        facts: MemberFacts = joined(("range", bytes(2_000) + bytes([number]))).facts["member"]
        assert schema.to_json(joined(*facts.protocols), 1_000)
    assert schema._short_protocols.cache_info().currsize == before
