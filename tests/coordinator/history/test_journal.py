"""The writer of `__group_events`: in time, counted where need be, and harmless when its log fails."""

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


class Bench:
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
            raise LogOffline("__group_events-7", "this node has it not, or not yet", is_reported=True)
        return self.log, 3

    def tell(self, *happened: Event) -> None:
        """And somebody is about to see it."""
        self.journal.report(happened, self.clock.now())
        self.journal.flush()

    def advance(self, ms: int) -> None:
        self.log.elapsed += ms
        self.clock.advance(ms)

    def told(self) -> list[tuple[bytes | None, str]]:
        return [(key, value["kind"]) for key, value in self.log.rows]


@pytest.fixture
def bench() -> Bench:
    return Bench()


CREATED = Event(events.GROUP_CREATED, "g", {})


def test_events_are_written_at_once_in_order_with_the_group_as_key(bench: Bench) -> None:
    bench.tell(CREATED, Event(events.GROUP_DELETED, "h", {}))
    assert bench.told() == [(b"g", "group_created"), (b"h", "group_deleted")]
    assert bench.log.rows[0][1]["time"] == bench.clock.now().wall_ms
    bench.tell()
    assert bench.opened == 1


def test_an_event_that_is_too_large_loses_no_other_event(bench: Bench) -> None:
    large = Event(events.GROUP_DELETED, "g" * 20_000, {})
    with capture_logs() as logs:
        bench.tell(CREATED, large, CREATED)
        bench.tell(CREATED)
    assert bench.told() == [(b"g", "group_created")] * 3
    assert [line["event"] for line in logs] == ["an event is lost: there is too much of it"]
    assert bench.opened == 1


def test_events_of_one_iteration_are_one_batch_unless_an_answer_waits(bench: Bench) -> None:
    bench.journal.report((CREATED,), bench.clock.now())
    bench.journal.report((CREATED,), bench.clock.now())
    assert bench.told() == []
    bench.journal.flush()
    bench.journal.flush()
    assert len(bench.told()) == 2
    bench.journal.report((CREATED,), bench.clock.now())
    bench.journal.report((Event(events.MEMBERS_SYNCED, "g", {"generation": 1, "synced": {}}),), bench.clock.now())
    assert len(bench.told()) == 2
    bench.advance(0)  # the end of the turn: nothing waits in memory longer than that
    assert len(bench.told()) == 4
    assert bench.log.batches == 2
    bench.journal.report((CREATED,), bench.clock.now())
    bench.advance(0)
    assert len(bench.told()) == 5


def test_the_event_of_a_large_group_is_written_later_and_blocks_nobody(bench: Bench) -> None:
    bench.log.most_bytes = 10_000_000
    bench.tell(CREATED, large(), CREATED)
    assert bench.told() == [(b"g", "group_created")]
    bench.advance(0)
    assert bench.told() == [(b"g", "group_created"), (b"g", "rebalance_completed"), (b"g", "group_created")]
    bench.tell(large(), CREATED)
    assert len(bench.told()) == 3
    bench.journal.close()
    assert len(bench.told()) == 5


def test_events_that_cannot_be_encoded_are_lost_with_a_log_line(bench: Bench) -> None:
    with capture_logs() as logs:
        bench.tell(CREATED, failed(MAX_BYTES // LEAST_MEMBER_BYTES + 1), CREATED)
        bench.advance(0)
    assert len(bench.told()) == 2
    (line,) = logs
    assert (line["event"], line["kind"], line["group"]) == (
        "an event is lost: there is too much of it", "rebalance_failed", "g"
    )  # fmt: skip


def test_many_event_rows_become_several_batches(bench: Bench) -> None:
    bench.log.most_bytes = ROWS_BYTES + 10_000
    bench.tell(*[joined(("range", b"m" * 1_500))] * 250)
    assert len(bench.told()) == 250
    assert bench.log.batches == 250 * 2_200 // ROWS_BYTES + 1


def test_refusals_are_written_a_second_later(bench: Bench) -> None:
    bench.tell(refusal(), CREATED, refusal())
    assert bench.told() == [(b"g", "group_created")]
    bench.advance(999)
    bench.tell(refusal(error=82))
    bench.advance(1)
    key, value = bench.log.rows[1]
    assert (key, value["kind"], value["error"], value["error_code"], value["count"]) == (
        b"g", "requests_refused", "UNKNOWN_MEMBER_ID", 25, 2,
    )  # fmt: skip
    assert [row[1]["time"] - bench.clock.now().wall_ms for row in bench.log.rows[1:]] == [-1_000, -1]
    assert (bench.log.rows[2][1]["kind"], bench.log.rows[2][1]["error"]) == ("member_fenced", "FENCED_INSTANCE_ID")
    bench.tell(refusal())
    bench.advance(1_000)
    assert len(bench.log.rows) == 4


def test_refusals_of_very_many_clients_become_one_row_without_a_name(bench: Bench) -> None:
    bench.tell(*(refusal(client=str(number)) for number in range(150)))
    bench.advance(1_000)
    assert len(bench.log.rows) == 101
    assert (bench.log.rows[-1][0], bench.log.rows[-1][1]["error"], bench.log.rows[-1][1]["count"]) == (None, None, 50)


def test_a_shortened_group_name_is_not_used_as_key(bench: Bench) -> None:
    bench.tell(refusal(group="g" * 30_000), refusal(group="h" * 249))
    bench.advance(1_000)
    assert [(key, len(value["group"])) for key, value in bench.log.rows] == [(None, 250), (b"h" * 249, 249)]


def test_counted_refusals_are_written_at_the_end(bench: Bench) -> None:
    bench.journal.report((CREATED, refusal()), bench.clock.now())
    bench.journal.close()
    assert bench.told() == [(b"g", "group_created"), (b"g", "requests_refused")]
    bench.advance(1_000)  # its timer finds nothing to do
    bench.journal.close()
    assert len(bench.log.rows) == 2


def test_a_loaded_shard_has_an_event(bench: Bench) -> None:
    bench.journal.loaded(bench.clock.now(), groups=2, records=30, took_ms=4)
    key, value = bench.log.rows[0]
    assert key is None
    assert (value["kind"], value["group"], value["partition"]) == ("shard_loaded", None, 7)
    assert (value["groups"], value["records"], value["took_ms"]) == (2, 30, 4)


def test_a_failing_event_log_is_retried_later_without_effect_on_groups(bench: Bench) -> None:
    bench.log.fails = True
    with capture_logs() as lines:
        bench.tell(CREATED)
        bench.tell(CREATED, CREATED)
    assert [line["log_level"] for line in lines] == ["error"]
    bench.log.fails = False
    bench.advance(REOPEN_MS - 1)
    bench.tell(CREATED)
    assert bench.told() == []
    bench.advance(1)
    with capture_logs() as lines:
        bench.tell(CREATED)
    assert [(line["log_level"], line["lost"]) for line in lines] == [("warning", 1)]
    assert bench.told() == [(b"g", "group_created")] * 4  # those that came meanwhile had waited
    assert bench.opened == 2


def test_a_bounded_number_of_events_waits_for_the_log(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(event_writer, "MAX_KEPT", 2)
    bench.log.fails = True
    bench.tell(CREATED)
    bench.log.fails = False
    bench.tell(CREATED, CREATED, CREATED)
    with capture_logs() as lines:
        bench.journal.writer.renew()
    assert [(line["log_level"], line["lost"]) for line in lines] == [("warning", 2)]
    assert bench.told() == [(b"g", "group_created")] * 2


def test_a_log_that_appears_is_opened_at_once(bench: Bench) -> None:
    """As when this process becomes the leader before the log of the history is here."""
    bench.is_here = False
    with capture_logs() as lines:
        bench.tell(CREATED)
    assert lines == []
    bench.is_here = True
    bench.advance(1)
    bench.journal.writer.renew()
    assert bench.told() == [(b"g", "group_created")]


def test_written_events_are_synced_within_a_second(bench: Bench) -> None:
    start = bench.clock.now().mono_ms
    bench.tell(CREATED)
    bench.advance(500)
    bench.tell(CREATED)
    assert bench.log.synced == []
    bench.advance(500)
    assert bench.log.synced == [start + 1_000]
    bench.advance(5_000)
    bench.tell(CREATED)
    bench.log.fails = True
    bench.tell(CREATED)
    bench.advance(1_000)
    assert bench.log.synced == [start + 1_000]


def test_a_fenced_producer_has_its_own_kind_of_event(bench: Bench) -> None:
    bench.tell(refusal(error=47), refusal(error=90))
    bench.journal.close()
    assert [value["kind"] for _, value in bench.log.rows] == ["producer_fenced"] * 2


def test_waiting_events_are_written_by_the_next_leader_when_a_partition_moves(bench: Bench) -> None:
    bench.tell(CREATED)
    bench.journal.report((refusal(), refusal(), CREATED), bench.clock.now())
    bench.is_here = False  # its log is about to be closed
    with capture_logs() as logs:
        rows = bench.journal.hand_over()
        bench.advance(REOPEN_MS)
    assert not logs
    assert bench.told() == [(b"g", "group_created")]
    other = Bench()
    other.is_here = False  # its log comes a little later
    other.journal.writer.write(rows, other.clock.now())
    other.is_here = True
    other.journal.writer.renew()
    assert other.told() == [(b"g", "group_created"), (b"g", "requests_refused")]
    assert other.log.rows[1][1]["count"] == 2
    # it is led here once more
    bench.is_here = True
    bench.journal.writer.renew()
    assert bench.journal.hand_over() == []
    bench.tell(CREATED)
    assert bench.told() == [(b"g", "group_created")] * 2
