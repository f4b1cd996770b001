"""Events about deliveries that ended otherwise than by an acceptance."""

from __future__ import annotations

from typing import Any

import pytest

from muster.coordinator.groups.common.events import DELIVERIES_FAILED
from muster.coordinator.runtime.share_partitions.endings import EVENTS_A_SECOND, RELEASED, Ending, Endings
from muster.coordinator.share.in_flight import ACKNOWLEDGED, AVAILABLE, Row
from muster.coordinator.share.partition import Change
from tests.coordinator.api.share.serving import GROUP, Serving, acquired

GAP, ACCEPT, RELEASE, REJECT, RENEW = 0, 1, 2, 3, 4
T = ("t", 0)


def reported(serving: Serving) -> list[tuple[Any, ...]]:
    """Cause, member, offsets, deliveries and state of each event so far, which are then forgotten."""
    found, serving.events[:] = list(serving.events), []
    assert all((one.kind, one.group_id, one.facts["topic"]) == (DELIVERIES_FAILED, GROUP, "t") for one in found)
    names = ("cause", "member", "first_offset", "last_offset", "deliveries", "state")
    return [tuple(one.facts[name] for name in names) for one in found]


def begun(**configs: str) -> Serving:
    """A group that has ten records in one partition; the member `a` holds them all."""
    serving = Serving({name.replace("_", "."): text for name, text in configs.items()})
    serving.node.job_queue.run(serving.node.topics.ensuring("t", 1), lambda _: None, serving.node.persister)
    serving.append("t", 10)
    serving.fetch("a", 0, T)
    assert acquired(serving.fetch("a", 1, T)) == [(0, 9, 1)] or serving.share().core.in_flight == 10
    return serving


def test_an_acceptance_is_no_event_and_other_ends_are() -> None:
    serving = begun()
    acks = {T: [(0, 4, [ACCEPT]), (5, 6, [RELEASE]), (7, 7, [REJECT]), (8, 8, [GAP])]}
    serving.acknowledge("a", 2, acks)
    assert reported(serving) == [("released", "a", 5, 6, 1, "available"), ("rejected", "a", 7, 7, 1, "archived")]


def test_the_end_of_a_lock_names_the_member() -> None:
    serving = begun()
    serving.clock.advance(30_000)
    assert reported(serving) == [("lock_over", "a", 0, 9, 1, "available")]


def test_the_end_of_a_session_is_an_event() -> None:
    serving = begun()
    serving.disconnect("a")
    assert reported(serving) == [("session_ended", "a", 0, 9, 1, "available")]


def test_dead_letters_have_two_events() -> None:
    serving = begun(errors_deadletterqueue_topic_name="dead")
    serving.acknowledge("a", 2, {T: [(0, 0, [REJECT]), (1, 9, [ACCEPT])]})
    assert reported(serving) == [("rejected", "a", 0, 0, 1, "archiving")]
    serving.letters.take()
    assert reported(serving) == [("dead_letter", None, 0, 0, 1, "archived")]


def test_a_letter_that_the_queue_could_not_take_is_said_to_be_lost() -> None:
    serving = begun(errors_deadletterqueue_topic_name="dead")
    serving.acknowledge("a", 2, {T: [(0, 0, [REJECT]), (1, 9, [ACCEPT])]})
    serving.letters.take(is_queued=False)
    assert reported(serving)[1:] == [("letter_lost", None, 0, 0, 1, "archived")]


def test_a_busy_partition_counts_what_it_does_not_report() -> None:
    endings = Endings()
    rows = [Row(first, first, AVAILABLE, 1) for first in range(0, 100, 2)] + [Row(200, 200, ACKNOWLEDGED, 1)]

    def at(now_ms: int) -> list[int]:
        change = Change(1, rows, 0, 0, frozenset(), True)
        events = endings.events("g", T, Ending(RELEASED, "a"), change, 5, now_ms)
        return [int(str(event.facts["left_out"])) for event in events]

    assert at(1_000) == [0] * EVENTS_A_SECOND
    assert at(1_500) == []
    assert at(2_000)[:2] == [50 - EVENTS_A_SECOND + 50, 0]
    assert endings.rest_due_ms == 3_000
    rest = endings.rest()
    assert rest is not None
    assert (rest.facts["first_offset"], rest.facts["left_out"]) == (98, 50 - EVENTS_A_SECOND - 1)
    assert (endings.rest_due_ms, endings.rest()) == (None, None)


@pytest.mark.parametrize("closes", [False, True])
def test_after_a_burst_all_records_were_counted(closes: bool) -> None:
    serving = begun()
    serving.append("t", 40)
    serving.fetch("a", 2, T)
    serving.acknowledge("a", 3, {T: [(one, one, [1 + one % 2]) for one in range(50)]})
    assert len(reported(serving)) == EVENTS_A_SECOND
    if closes:
        serving.share().close()
    else:
        serving.clock.advance(1_000)
    (rest,) = serving.events
    assert (rest.facts["first_offset"], rest.facts["records"]) == (49, 1)
    assert rest.facts["left_out"] == 25 - EVENTS_A_SECOND - 1
    serving.clock.advance(10_000)
    assert len(serving.events) == 1


@pytest.mark.parametrize("ends", ["lock", "session"])
def test_locks_of_many_rows_end_in_several_turns(ends: str) -> None:
    serving = Serving()
    serving.node.job_queue.run(serving.node.topics.ensuring("t", 1), lambda _: None, serving.node.persister)
    for _ in range(120):
        serving.append("t", 1)
    serving.fetch("a", 0, T, max_records=0)
    serving.fetch("a", 1, T, batch_size=1)
    serving.send_acks(
        "a", 2, {T: [(one, one, [RENEW if one % 2 else RELEASE]) for one in range(120)]}, is_renew_ack=True
    )
    serving.clock.advance(0)
    assert {row[0] for row in reported(serving)} == {RELEASED}
    if ends == "lock":
        serving.clock.advance(30_000)
    else:
        serving.disconnect("a")
    serving.clock.advance(0)
    holders = {row[:2] for row in reported(serving)} - {(RELEASED, "a")}
    assert holders == {("lock_over" if ends == "lock" else "session_ended", "a")}
    core = serving.share().core if ends == "lock" else None
    assert core is None or core.next_offset() == 0
