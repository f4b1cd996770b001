"""Each rule about the deliveries of a share group has a story that fires it, and one that does not."""

from __future__ import annotations

import json
from collections.abc import Iterable

from muster.coordinator.alerts.group_watch import KEPT_MS, RECENT_MS, GroupWatch
from muster.coordinator.alerts.shares import ShareSample, ShareSamples
from muster.coordinator.groups.common import events
from muster.coordinator.groups.common.events import Event
from muster.coordinator.history import schema
from muster.coordinator.share.in_flight import Row
from muster.coordinator.share_state.rows import Rows
from muster.pipeline.episodes.claims import Claim
from tests.coordinator.alerts.story import MINUTE, SECOND, START_MS

LOOK_MS = 15 * SECOND


class Queue:
    """A share group over the partitions of the topic `t`. Samples are taken by `seen`."""

    def __init__(self, *owners: str) -> None:
        self.watch = GroupWatch()
        self.now_ms = START_MS
        self._owners = owners or ("w",)

    def later(self, ms: int) -> Queue:
        self.now_ms += ms
        return self

    def fails(self, offset: int, deliveries: int, cause: str, state: str = "available", partition: int = 0) -> Queue:
        facts = {"topic": "t", "partition": partition, "first_offset": offset, "last_offset": offset, "records": 1,
                 "deliveries": deliveries, "cause": cause, "member": "w", "state": state, "left_out": 0}  # fmt: skip
        self.watch.feed(Event(events.DELIVERIES_FAILED, "g", facts), self.now_ms)
        return self

    def seen(self, *partitions: tuple[int, int], rows: Iterable[tuple[int, int, int, int]] = ()) -> Queue:
        """A sample: the start offset and the end of each partition. `rows`: of the first partition."""
        self.later(LOOK_MS)
        if self.watch.shares is None:
            self.watch.shares = ShareSamples()
        for index, (start, end) in enumerate(partitions):
            mine = Rows([Row(*row) for row in rows] if not index else ())
            done = sum(row.last - row.first + 1 for row in mine if row.state in (2, 4))
            self.watch.shares.see(ShareSample(("t", index), start, done, end, mine), self.now_ms)
        holds = [(("t", index), f"{name}-1", name) for index, name in enumerate(self._owners)]
        self.watch.shares.owned(holds, self.now_ms)
        self.watch.shares.end(self.now_ms)
        return self

    def claims(self) -> list[Claim]:
        return self.watch.claims(self.now_ms, ())

    def rules(self) -> list[str]:
        return [one.rule for one in self.claims()]


def test_a_record_that_is_given_up_is_an_alert_for_some_minutes() -> None:
    queue = Queue().seen((0, 100))
    for deliveries in range(1, 5):
        queue.later(SECOND).fails(42, deliveries, "lock_over")
    queue.later(SECOND).fails(42, 5, "lock_over", "archived").seen((100, 100))
    (claim,) = queue.claims()
    assert claim.rule == "poison_record"
    assert claim.text.startswith("record 42 of t-0 was archived after 5 deliveries")
    assert claim.from_ms == START_MS + LOOK_MS + SECOND
    assert queue.watch.may_have_claims(queue.now_ms)
    assert not queue.watch.is_idle(queue.now_ms)
    assert queue.later(RECENT_MS).rules() == []
    assert queue.later(KEPT_MS).watch.is_idle(queue.now_ms)


def test_deliveries_of_the_history_count_after_a_restart() -> None:
    queue = Queue()
    for deliveries in range(1, 6):
        state = "archived" if deliveries == 5 else "available"
        facts = {"topic": "t", "partition": 0, "first_offset": 42, "last_offset": 42, "records": 1, "left_out": 0,
                 "deliveries": deliveries, "cause": "lock_over", "member": "w", "state": state}  # fmt: skip
        event = Event(events.DELIVERIES_FAILED, "g", facts)
        queue.later(SECOND).watch.remember(json.loads(schema.to_json(event, queue.now_ms)))
    (claim,) = queue.seen((100, 100)).claims()
    assert (claim.rule, claim.from_ms) == ("poison_record", START_MS + SECOND)


def test_records_of_the_dead_letter_queue_are_joined_and_rejections_are_no_alert() -> None:
    queue = Queue().seen((0, 100))
    for offset in (7, 8):
        queue.fails(offset, 5, "released", "archiving").fails(offset, 5, "dead_letter", "archived")
    assert queue.claims()[0].text.startswith(
        "2 records (first 7 of t-0) went to the dead-letter queue after 5 deliveries"
    )
    queue = Queue().seen((0, 100)).fails(7, 1, "rejected", "archived").seen((100, 100))
    assert queue.rules() == []


def test_a_record_that_is_not_done_is_an_alert_while_it_waits_for_two_looks() -> None:
    queue = Queue().seen((0, 100)).fails(42, 3, "released")
    assert queue.seen((42, 100), rows=[(42, 42, 0, 3)]).rules() == []
    (claim,) = queue.seen((42, 100), rows=[(42, 42, 0, 4)]).claims()
    assert (claim.rule, claim.from_ms) == ("record_not_done", START_MS + LOOK_MS)
    assert "was delivered 4 times" in claim.text
    assert queue.seen((100, 100)).rules() == []


def test_workers_that_fail_at_most_records_are_to_blame_and_not_the_records() -> None:
    queue = Queue().seen((0, 100))
    for offset in range(20):
        queue.later(SECOND).fails(offset, 5, "released", "archived")
    assert queue.seen((25, 100)).rules() == ["most_records_fail"]
    assert "gave up 20 records of t-0 and accepted 5" in queue.claims()[0].text


def test_a_lock_is_too_short_if_records_are_accepted_after_it() -> None:
    queue = Queue().seen((0, 100))
    for offset in (3, 4, 5):
        queue.fails(offset, 1, "lock_over")
    assert queue.seen((3, 100), rows=[(3, 5, 0, 1)]).rules() == []
    (claim,) = queue.seen((0, 100), rows=[(0, 2, 0, 0), (3, 5, 2, 2)]).claims()
    assert claim.rule == "lock_too_short"
    assert "the lock of 3 accepted records of t-0 was over 3 times" in claim.text
    queue = Queue().seen((0, 100))
    for offset in (3, 4, 5):
        queue.fails(offset, 1, "lock_over").fails(offset, 2, "rejected", "archived")
    assert queue.seen((100, 100)).rules() == []


def test_a_worker_hangs_or_has_no_work_while_others_do_theirs() -> None:
    stuck, starved = Queue("a", "b"), Queue("a", "b")
    for number in range(10):
        stuck.seen((10 * number, 200), (0, 50))
        starved.seen((10 * number, 200), (0, 0))
    (claim,) = stuck.claims()
    assert (claim.rule, claim.who) == ("stuck_worker", ("b",))
    (claim,) = starved.claims()
    assert (claim.rule, claim.who) == ("starved_worker", ("b",))
    assert stuck.seen((100, 200), (50, 50)).rules() == []


def test_who_had_a_partition_is_remembered_and_offsets_may_be_set_back() -> None:
    queue = Queue("a", "b").seen((50, 100), (0, 0))
    queue._owners = ("b",)
    queue.seen((20, 100), (0, 0))
    assert queue.watch.shares is not None
    facts = queue.watch.shares.facts()
    assert {(one.partition, one.client, one.until_ms is None) for one in facts.holds} == {
        (0, "a", False), (1, "b", False), (0, "b", True)
    }  # fmt: skip
    assert [(one.accepted, one.lag) for one in facts.partitions] == [(0, 80), (0, 0)]
    assert queue.later(MINUTE).rules() == []
