from __future__ import annotations

from muster.coordinator.groups.common import events
from muster.coordinator.state_machine.deadlines import MAX_LATE_ANSWERS, NO_LATE_ANSWERS, LateAnswers
from muster.coordinator.state_machine.interface import Now
from tests.coordinator.groups.harness import START, GroupHarness


def test_without_late_answers_a_timeout_counts_from_the_last_request() -> None:
    assert NO_LATE_ANSWERS.until(1_000, 6_000, 7_000) == 7_000
    waits = LateAnswers()
    waits.late(100, 1_000)  # it ended before that
    assert waits.until(1_000, 6_000, 7_000) == 7_000


def test_the_timeout_of_a_late_answered_client_counts_from_its_answer() -> None:
    waits = LateAnswers()
    waits.late(900, 1_500)
    waits.late(950, 1_700)
    assert waits.until(1_000, 6_000, 7_000) == 7_700
    assert waits.until(1_600, 6_000, 7_600) == 7_700  # the request came after the first answers
    assert waits.until(1_000, 6_000, 7_000, is_own=False) == 7_000


def test_a_client_whose_request_waits_does_not_time_out() -> None:
    waits = LateAnswers()
    waits.since_ms = 1_000
    assert waits.until(1_000, 6_000, 7_000) == 13_000
    assert waits.until(900, 6_000, 6_900) == 12_900  # nobody was answered nearly all that time
    assert waits.until(900, 60, 1_020) == 960
    waits.since_ms = 6_890  # because an answer is always under way
    assert waits.until(900, 6_000, 6_900) == 6_900


def test_no_client_times_out_while_no_answers_left() -> None:
    waits = LateAnswers()
    waits.late(2_000, 5_000)
    assert waits.until(1_000, 6_000, 7_000) == 11_000
    assert waits.until(1_000, 6_001, 7_001) == 11_001
    assert waits.until(1_000, 6_002, 7_002) == 7_002  # not for half of its time
    waits.late(8_000, 12_000)  # it began when its time was over, except for the first wait
    assert waits.until(1_000, 6_000, 12_000) == 18_000
    assert waits.until(1_000, 5_000, 12_000) == 17_000
    assert waits.until(1_000, 1_000, 12_000) == 6_000


def test_the_number_of_remembered_late_answers_is_bounded() -> None:
    waits = LateAnswers()
    for number in range(MAX_LATE_ANSWERS + 1):
        waits.late(number, number + 1)
    assert waits.until(0, 10_000, 10_000) == 10_000
    assert waits.until(1, 10_000, 10_001) == 10_002


def ring(harness: GroupHarness, waits: LateAnswers) -> None:
    """Handle due deadlines as the shell does that has parked answers."""
    harness.collect(harness.core.advance(harness.now, waits))


def go(harness: GroupHarness, ms: int) -> None:
    """Let time pass without any check of deadlines."""
    harness.now = Now(harness.now.mono_ms + ms, harness.now.wall_ms + ms)


def test_a_member_with_a_parked_answer_stays_and_expires_a_session_after_it() -> None:
    harness, waits = GroupHarness(), LateAnswers()
    a, b = harness.stable()
    go(harness, 1_000)
    harness.beat(a)
    stalled_ms = waits.since_ms = harness.now.mono_ms
    for _ in range(3):  # the disk does not answer for 30 s, which is three session timeouts
        go(harness, 10_000)
        ring(harness, waits)
        assert harness.kinds()[-1] != events.MEMBER_EXPIRED
    waits.late(stalled_ms, harness.now.mono_ms)
    waits.since_ms = 2**63 - 1
    go(harness, 5_000)
    assert harness.beat(a) == 0
    go(harness, 4_999)
    ring(harness, waits)
    assert list(harness.group().members) == [a, b]
    go(harness, 1)
    ring(harness, waits)
    assert list(harness.group().members) == [a]
    (expired,) = [one.facts for one in harness.events if one.kind == events.MEMBER_EXPIRED]
    assert expired["member"].member == b
    assert expired["member"].heard_ms == START.wall_ms  # and not earlier than a session timeout before
    # earlier waits do not extend it again
    go(harness, 10_000)
    ring(harness, waits)
    assert list(harness.group().members) == []


def test_dead_members_expire_on_a_disk_that_is_always_late() -> None:
    harness, waits = GroupHarness(), LateAnswers()
    a, _ = harness.stable()
    began = harness.now.mono_ms
    while list(harness.group().members) and harness.now.mono_ms < began + 60_000:
        go(harness, 600)
        waits.late(harness.now.mono_ms - 700, harness.now.mono_ms)
        ring(harness, waits)
    assert list(harness.group().members) == []
    assert harness.now.mono_ms < began + 12_000
    del a


def test_a_member_whose_rebalance_answer_was_late_is_waited_for() -> None:
    harness, waits = GroupHarness(), LateAnswers()
    a, b = harness.stable()
    harness.group().members[b].session_timeout_ms = harness.group().members[a].session_timeout_ms = 300_000
    harness.beat(a)
    harness.beat(b)
    harness.join(a, protocols=(("range", b"other"),))
    waits.since_ms = harness.now.mono_ms + 1_000
    go(harness, 20_000)  # its rebalance timeout
    ring(harness, waits)
    assert harness.group().state == "PreparingRebalance"
    waits.late(waits.since_ms, harness.now.mono_ms)
    waits.since_ms = 2**63 - 1
    go(harness, 19_999)
    ring(harness, waits)
    assert list(harness.group().members) == [a, b]
    go(harness, 1)
    ring(harness, waits)
    assert list(harness.group().members) == [a]


def test_a_member_whose_join_answer_was_late_is_waited_for() -> None:
    harness, waits = GroupHarness(), LateAnswers()
    a, b = harness.completing()
    harness.group().members[b].session_timeout_ms = harness.group().members[a].session_timeout_ms = 300_000
    harness.beat(a)
    harness.beat(b)
    waits.late(harness.now.mono_ms, harness.now.mono_ms + 15_000)
    go(harness, 20_000)
    ring(harness, waits)
    assert harness.group().state == "CompletingRebalance"
    go(harness, 15_000)
    ring(harness, waits)
    assert not harness.group().members
