"""The writer of `__group_events`: it writes in time, counts where needed, and does no harm when its log fails."""

from __future__ import annotations

import json
from typing import Any

import pytest
from structlog.testing import capture_logs

from muster.coordinator.groups.common import events
from muster.coordinator.groups.common.events import Event
from muster.coordinator.history import event_writer
from muster.coordinator.history.event_writer import REOPEN_MS, ROWS_BYTES
from muster.coordinator.history.journal import Journal
from muster.coordinator.history.schema import LEAST_MEMBER_BYTES, MAX_BYTES
from muster.coordinator.log import batches
from muster.coordinator.log.errors import LogOffline, RecordListTooLarge
from muster.coordinator.system.clock import ManualClock
from tests.coordinator.history.test_pending_rows import failed, joined, large
from tests.coordinator.history.test_refusal_counts import refusal

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


class JournalHarness:
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
            raise LogOffline("__group_events-7", "the log is not on this node now", is_reported=True)
        return self.log, 3

    def report(self, *happened: Event) -> None:
        """Report an event that a reader will see soon."""
        self.journal.report(happened, self.clock.now())
        self.journal.flush()

    def advance(self, ms: int) -> None:
        self.log.elapsed += ms
        self.clock.advance(ms)

    def written(self) -> list[tuple[bytes | None, str]]:
        return [(key, value["kind"]) for key, value in self.log.rows]


@pytest.fixture
def harness() -> JournalHarness:
    return JournalHarness()


CREATED = Event(events.GROUP_CREATED, "g", {})


def test_events_are_written_at_once_in_order_with_the_group_as_key(harness: JournalHarness) -> None:
    harness.report(CREATED, Event(events.GROUP_DELETED, "h", {}))
    assert harness.written() == [(b"g", "group_created"), (b"h", "group_deleted")]
    assert harness.log.rows[0][1]["time"] == harness.clock.now().wall_ms
    harness.report()
    assert harness.opened == 1


def test_an_event_that_is_too_large_loses_no_other_event(harness: JournalHarness) -> None:
    large = Event(events.GROUP_DELETED, "g" * 20_000, {})
    with capture_logs() as logs:
        harness.report(CREATED, large, CREATED)
        harness.report(CREATED)
    assert harness.written() == [(b"g", "group_created")] * 3
    assert [line["event"] for line in logs] == ["an event cannot be written, and is lost"]
    assert harness.opened == 1


def test_events_of_one_iteration_are_one_batch_unless_an_answer_waits(harness: JournalHarness) -> None:
    harness.journal.report((CREATED,), harness.clock.now())
    harness.journal.report((CREATED,), harness.clock.now())
    assert harness.written() == []
    harness.journal.flush()
    harness.journal.flush()
    assert len(harness.written()) == 2
    harness.journal.report((CREATED,), harness.clock.now())
    harness.journal.report((Event(events.MEMBERS_SYNCED, "g", {"generation": 1, "synced": {}}),), harness.clock.now())
    assert len(harness.written()) == 2
    harness.advance(0)  # the end of the iteration: no event waits in memory longer than that
    assert len(harness.written()) == 4
    assert harness.log.batches == 2
    harness.journal.report((CREATED,), harness.clock.now())
    harness.advance(0)
    assert len(harness.written()) == 5


def test_the_event_of_a_large_group_is_written_later_and_blocks_nobody(harness: JournalHarness) -> None:
    harness.log.most_bytes = 10_000_000
    harness.report(CREATED, large(), CREATED)
    assert harness.written() == [(b"g", "group_created")]
    harness.advance(0)
    assert harness.written() == [(b"g", "group_created"), (b"g", "rebalance_completed"), (b"g", "group_created")]
    harness.report(large(), CREATED)
    assert len(harness.written()) == 3
    harness.journal.close()
    assert len(harness.written()) == 5


def test_events_that_cannot_be_encoded_are_lost_with_a_log_line(harness: JournalHarness) -> None:
    with capture_logs() as logs:
        harness.report(CREATED, failed(MAX_BYTES // LEAST_MEMBER_BYTES + 1), CREATED)
        harness.advance(0)
    assert len(harness.written()) == 2
    (line,) = logs
    assert (line["event"], line["kind"], line["group"]) == (
        "an event cannot be written, and is lost", "rebalance_failed", "g"
    )  # fmt: skip


def test_many_event_rows_become_several_batches(harness: JournalHarness) -> None:
    harness.log.most_bytes = ROWS_BYTES + 10_000
    harness.report(*[joined(("range", b"m" * 1_500))] * 250)
    assert len(harness.written()) == 250
    assert harness.log.batches == 250 * 2_200 // ROWS_BYTES + 1


def test_refusals_are_written_a_second_later(harness: JournalHarness) -> None:
    harness.report(refusal(), CREATED, refusal())
    assert harness.written() == [(b"g", "group_created")]
    harness.advance(999)
    harness.report(refusal(error=82))
    harness.advance(1)
    key, value = harness.log.rows[1]
    assert (key, value["kind"], value["error"], value["error_code"], value["count"]) == (
        b"g", "requests_refused", "UNKNOWN_MEMBER_ID", 25, 2,
    )  # fmt: skip
    assert [row[1]["time"] - harness.clock.now().wall_ms for row in harness.log.rows[1:]] == [-1_000, -1]
    assert (harness.log.rows[2][1]["kind"], harness.log.rows[2][1]["error"]) == ("member_fenced", "FENCED_INSTANCE_ID")
    harness.report(refusal())
    harness.advance(1_000)
    assert len(harness.log.rows) == 4


def test_refusals_of_very_many_clients_become_one_row_without_a_name(harness: JournalHarness) -> None:
    harness.report(*(refusal(client=str(number)) for number in range(150)))
    harness.advance(1_000)
    assert len(harness.log.rows) == 101
    assert (harness.log.rows[-1][0], harness.log.rows[-1][1]["error"], harness.log.rows[-1][1]["count"]) == (
        None,
        None,
        50,
    )


def test_a_shortened_group_name_is_not_used_as_key(harness: JournalHarness) -> None:
    harness.report(refusal(group="g" * 30_000), refusal(group="h" * 249))
    harness.advance(1_000)
    assert [(key, len(value["group"])) for key, value in harness.log.rows] == [(None, 250), (b"h" * 249, 249)]


def test_counted_refusals_are_written_at_the_end(harness: JournalHarness) -> None:
    harness.journal.report((CREATED, refusal()), harness.clock.now())
    harness.journal.close()
    assert harness.written() == [(b"g", "group_created"), (b"g", "requests_refused")]
    harness.advance(1_000)  # its timer finds nothing to do
    harness.journal.close()
    assert len(harness.log.rows) == 2


def test_a_loaded_shard_has_an_event(harness: JournalHarness) -> None:
    harness.journal.loaded(harness.clock.now(), groups=2, records=30, took_ms=4)
    key, value = harness.log.rows[0]
    assert key is None
    assert (value["kind"], value["group"], value["partition"]) == ("shard_loaded", None, 7)
    assert (value["groups"], value["records"], value["took_ms"]) == (2, 30, 4)


def test_a_failing_event_log_is_retried_later_without_effect_on_groups(harness: JournalHarness) -> None:
    harness.log.fails = True
    with capture_logs() as lines:
        harness.report(CREATED)
        harness.report(CREATED, CREATED)
    assert [line["log_level"] for line in lines] == ["error"]
    harness.log.fails = False
    harness.advance(REOPEN_MS - 1)
    harness.report(CREATED)
    assert harness.written() == []
    harness.advance(1)
    with capture_logs() as lines:
        harness.report(CREATED)
    assert [(line["log_level"], line["lost"]) for line in lines] == [("warning", 1)]
    assert harness.written() == [(b"g", "group_created")] * 4  # the events that came meanwhile had waited
    assert harness.opened == 2


def test_a_bounded_number_of_events_waits_for_the_log(harness: JournalHarness, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(event_writer, "MAX_KEPT", 2)
    harness.log.fails = True
    harness.report(CREATED)
    harness.log.fails = False
    harness.report(CREATED, CREATED, CREATED)
    with capture_logs() as lines:
        harness.journal.writer.renew()
    assert [(line["log_level"], line["lost"]) for line in lines] == [("warning", 2)]
    assert harness.written() == [(b"g", "group_created")] * 2


def test_a_log_that_appears_is_opened_at_once(harness: JournalHarness) -> None:
    """The same happens when this process becomes the leader before the log of the history is on this node."""
    harness.is_here = False
    with capture_logs() as lines:
        harness.report(CREATED)
    assert lines == []
    harness.is_here = True
    harness.advance(1)
    harness.journal.writer.renew()
    assert harness.written() == [(b"g", "group_created")]


def test_written_events_are_synced_within_a_second(harness: JournalHarness) -> None:
    start = harness.clock.now().mono_ms
    harness.report(CREATED)
    harness.advance(500)
    harness.report(CREATED)
    assert harness.log.synced == []
    harness.advance(500)
    assert harness.log.synced == [start + 1_000]
    harness.advance(5_000)
    harness.report(CREATED)
    harness.log.fails = True
    harness.report(CREATED)
    harness.advance(1_000)
    assert harness.log.synced == [start + 1_000]


def test_a_fenced_producer_has_its_own_kind_of_event(harness: JournalHarness) -> None:
    harness.report(refusal(error=47), refusal(error=90))
    harness.journal.close()
    assert [value["kind"] for _, value in harness.log.rows] == ["producer_fenced"] * 2


def test_waiting_events_are_written_by_the_next_leader_when_a_partition_moves(harness: JournalHarness) -> None:
    harness.report(CREATED)
    harness.journal.report((refusal(), refusal(), CREATED), harness.clock.now())
    harness.is_here = False  # its log will soon be closed
    with capture_logs() as logs:
        rows = harness.journal.hand_over()
        harness.advance(REOPEN_MS)
    assert not logs
    assert harness.written() == [(b"g", "group_created")]
    other = JournalHarness()
    other.is_here = False  # its log comes a little later
    other.journal.writer.write(rows, other.clock.now())
    other.is_here = True
    other.journal.writer.renew()
    assert other.written() == [(b"g", "group_created"), (b"g", "requests_refused")]
    assert other.log.rows[1][1]["count"] == 2
    # this node leads it again
    harness.is_here = True
    harness.journal.writer.renew()
    assert harness.journal.hand_over() == []
    harness.report(CREATED)
    assert harness.written() == [(b"g", "group_created")] * 2
