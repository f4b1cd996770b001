"""The writer of `__group_events`: in time, counted where need be, and harmless when its log fails."""

from __future__ import annotations

import json
from typing import Any

import pytest
from structlog.testing import capture_logs

from muster.coordinator.clock import ManualClock
from muster.coordinator.groups.common import events
from muster.coordinator.groups.common.events import Event
from muster.coordinator.log import batches
from muster.coordinator.log.errors import LogOffline, RecordListTooLarge
from muster.coordinator.observe import event_writer
from muster.coordinator.observe.event_writer import REOPEN_MS, ROWS_BYTES
from muster.coordinator.observe.journal import Journal
from muster.coordinator.observe.schema import MOST_BYTES
from tests.coordinator.observe.test_pending_rows import joined, large
from tests.coordinator.observe.test_refusal_counts import refusal

Row = tuple[bytes | None, dict[str, Any]]


class FakeLog:
    def __init__(self) -> None:
        self.rows: list[Row] = []
        self.fails = False
        self.synced: list[int] = []

    def append(self, leader_epoch: int, batch: bytes | bytearray, *, wall_ms: int) -> None:
        assert (leader_epoch, wall_ms) == (3, 1_700_000_000_000 + self.elapsed)
        if self.fails:
            raise OSError("no space left on device")
        if len(batch) > self.most_bytes:
            raise RecordListTooLarge(f"a batch of {len(batch)} bytes does not fit")
        self.batches += 1
        for _, rows in batches.read(bytes(batch)):
            self.rows.extend((row.key, json.loads(row.value or b"")) for row in rows)

    def sync_if_older(self, mono_ms: int) -> None:
        self.synced.append(mono_ms)

    elapsed = batches = 0
    most_bytes = 10_000


class Desk:
    def __init__(self) -> None:
        self.clock = ManualClock()
        self.log = FakeLog()
        self.opened = 0
        self.is_here = True
        self.restless: list[Event] = []
        self.journal = Journal(7, self._open, self.clock, self.restless.append)

    def _open(self) -> tuple[FakeLog, int]:
        self.opened += 1
        if not self.is_here:
            raise LogOffline("__group_events-7", "this node has it not, or not yet", is_told=True)
        return self.log, 3

    def tell(self, *happened: Event) -> None:
        """And somebody is about to see it."""
        self.journal.tell(happened, self.clock.now())
        self.journal.flush()

    def advance(self, ms: int) -> None:
        self.log.elapsed += ms
        self.clock.advance(ms)

    def told(self) -> list[tuple[bytes | None, str]]:
        return [(key, value["kind"]) for key, value in self.log.rows]


@pytest.fixture
def desk() -> Desk:
    return Desk()


CREATED = Event(events.GROUP_CREATED, "g", {})


def test_what_happened_is_there_at_once_in_order_by_group(desk: Desk) -> None:
    desk.tell(CREATED, Event(events.GROUP_DELETED, "h", {}))
    assert desk.told() == [(b"g", "group_created"), (b"h", "group_deleted")]
    assert desk.log.rows[0][1]["time"] == desk.clock.now().wall_ms
    desk.tell()
    assert desk.opened == 1


def test_an_event_that_is_too_large_takes_no_other_with_it(desk: Desk) -> None:
    large = Event(events.GROUP_DELETED, "g" * 20_000, {})
    with capture_logs() as logs:
        desk.tell(CREATED, large, CREATED)
        desk.tell(CREATED)
    assert desk.told() == [(b"g", "group_created")] * 3
    assert [line["event"] for line in logs] == ["an event is lost: there is too much of it"]
    assert desk.opened == 1


def test_what_happens_meanwhile_is_one_batch_unless_somebody_must_be_answered(desk: Desk) -> None:
    desk.journal.tell((CREATED,), desk.clock.now())
    desk.journal.tell((CREATED,), desk.clock.now())
    assert desk.told() == []
    desk.journal.flush()
    desk.journal.flush()
    assert len(desk.told()) == 2
    desk.journal.tell((CREATED,), desk.clock.now())
    desk.journal.tell((Event(events.MEMBERS_SYNCED, "g", {"generation": 1, "synced": {}}),), desk.clock.now())
    assert len(desk.told()) == 2
    desk.advance(0)  # the end of the turn: nothing waits in memory longer than that
    assert len(desk.told()) == 4
    assert desk.log.batches == 2
    desk.journal.tell((CREATED,), desk.clock.now())
    desk.advance(0)
    assert len(desk.told()) == 5


def test_a_large_groups_event_is_written_some_turns_later_and_nobody_waits_for_it(desk: Desk) -> None:
    desk.log.most_bytes = 10_000_000
    desk.tell(CREATED, large(), CREATED)
    assert desk.told() == [(b"g", "group_created")]
    desk.advance(0)
    assert desk.told() == [(b"g", "group_created"), (b"g", "rebalance_completed"), (b"g", "group_created")]
    desk.tell(large(), CREATED)
    assert len(desk.told()) == 3
    desk.journal.close()
    assert len(desk.told()) == 5


def test_what_cannot_be_told_is_lost_and_that_is_told(desk: Desk) -> None:
    with capture_logs() as logs:
        desk.tell(CREATED, joined(("range", bytes(MOST_BYTES))), CREATED)
    assert len(desk.told()) == 2
    (line,) = logs
    assert (line["event"], line["kind"], line["group"]) == (
        "an event is lost: there is too much of it", "member_joined", "g"
    )  # fmt: skip


def test_many_rows_are_several_batches(desk: Desk) -> None:
    desk.log.most_bytes = ROWS_BYTES + 10_000
    desk.tell(*[joined(("range", b"m" * 1_500))] * 300)
    assert len(desk.told()) == 300
    assert desk.log.batches == 300 * 2_200 // ROWS_BYTES + 1


def test_refusals_are_told_a_second_later(desk: Desk) -> None:
    desk.tell(refusal(), CREATED, refusal())
    assert desk.told() == [(b"g", "group_created")]
    desk.advance(999)
    desk.tell(refusal(error=82))
    desk.advance(1)
    key, value = desk.log.rows[1]
    assert (key, value["kind"], value["error"], value["error_code"], value["count"]) == (
        b"g", "requests_refused", "UNKNOWN_MEMBER_ID", 25, 2,
    )  # fmt: skip
    assert [row[1]["time"] - desk.clock.now().wall_ms for row in desk.log.rows[1:]] == [-1_000, -1]
    assert (desk.log.rows[2][1]["kind"], desk.log.rows[2][1]["error"]) == ("member_fenced", "FENCED_INSTANCE_ID")
    desk.tell(refusal())
    desk.advance(1_000)
    assert len(desk.log.rows) == 4


def test_a_flood_of_clients_has_one_nameless_row(desk: Desk) -> None:
    desk.tell(*(refusal(client=str(number)) for number in range(150)))
    desk.advance(1_000)
    assert len(desk.log.rows) == 101
    assert (desk.log.rows[-1][0], desk.log.rows[-1][1]["error"], desk.log.rows[-1][1]["count"]) == (None, None, 50)


def test_a_name_that_was_cut_is_no_key(desk: Desk) -> None:
    desk.tell(refusal(group="g" * 30_000), refusal(group="h" * 249))
    desk.advance(1_000)
    assert [(key, len(value["group"])) for key, value in desk.log.rows] == [(None, 250), (b"h" * 249, 249)]


def test_what_is_being_counted_is_written_at_the_end(desk: Desk) -> None:
    desk.journal.tell((CREATED, refusal()), desk.clock.now())
    desk.journal.close()
    assert desk.told() == [(b"g", "group_created"), (b"g", "requests_refused")]
    desk.advance(1_000)  # its timer finds nothing to do
    desk.journal.close()
    assert len(desk.log.rows) == 2


def test_a_shard_that_is_loaded_is_told(desk: Desk) -> None:
    desk.journal.loaded(desk.clock.now(), groups=2, records=30, took_ms=4)
    key, value = desk.log.rows[0]
    assert key is None
    assert (value["kind"], value["group"], value["partition"]) == ("shard_loaded", None, 7)
    assert (value["groups"], value["records"], value["took_ms"]) == (2, 30, 4)


def test_a_log_that_fails_is_left_alone_for_a_while_and_nobody_notices(desk: Desk) -> None:
    desk.log.fails = True
    with capture_logs() as lines:
        desk.tell(CREATED)
        desk.tell(CREATED, CREATED)
    assert [line["log_level"] for line in lines] == ["error"]
    desk.log.fails = False
    desk.advance(REOPEN_MS - 1)
    desk.tell(CREATED)
    assert desk.told() == []
    desk.advance(1)
    with capture_logs() as lines:
        desk.tell(CREATED)
    assert [(line["log_level"], line["lost"]) for line in lines] == [("warning", 1)]
    assert desk.told() == [(b"g", "group_created")] * 4  # those that came meanwhile had waited
    assert desk.opened == 2


def test_so_many_events_wait_for_a_log(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(event_writer, "MOST_KEPT", 2)
    desk.log.fails = True
    desk.tell(CREATED)
    desk.log.fails = False
    desk.tell(CREATED, CREATED, CREATED)
    with capture_logs() as lines:
        desk.journal.renew()
    assert [(line["log_level"], line["lost"]) for line in lines] == [("warning", 2)]
    assert desk.told() == [(b"g", "group_created")] * 2


def test_a_log_that_comes_is_opened_at_once(desk: Desk) -> None:
    """As when this process becomes the leader before the log of the history is here."""
    desk.is_here = False
    with capture_logs() as lines:
        desk.tell(CREATED)
    assert lines == []
    desk.is_here = True
    desk.advance(1)
    desk.journal.renew()
    assert desk.told() == [(b"g", "group_created")]


def test_what_was_written_goes_to_the_disk_within_a_second(desk: Desk) -> None:
    start = desk.clock.now().mono_ms
    desk.tell(CREATED)
    desk.advance(500)
    desk.tell(CREATED)
    assert desk.log.synced == []
    desk.advance(500)
    assert desk.log.synced == [start + 1_000]
    desk.advance(5_000)
    desk.tell(CREATED)
    desk.log.fails = True
    desk.tell(CREATED)
    desk.advance(1_000)
    assert desk.log.synced == [start + 1_000]


def test_a_fenced_producer_is_told_as_one(desk: Desk) -> None:
    desk.tell(refusal(error=47), refusal(error=90))
    desk.journal.close()
    assert [value["kind"] for _, value in desk.log.rows] == ["producer_fenced"] * 2
