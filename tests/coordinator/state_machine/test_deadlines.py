from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from muster.coordinator.state_machine.deadlines import NEVER, Deadline, Deadlines


def due(deadlines: Deadlines, mono_ms: int) -> list[str]:
    out = []
    while (one := deadlines.pop_due(mono_ms)) is not None:
        out.append(one.subject)
    return out


def test_no_deadline_is_due_in_an_empty_heap() -> None:
    deadlines = Deadlines()
    assert deadlines.next_ms() is None
    assert deadlines.pop_due(10**12) is None


def test_a_deadline_falls_due_once_and_not_before_its_time() -> None:
    deadlines, one = Deadlines(), Deadline("session", "g", "a")
    deadlines.set(one, 100)
    assert deadlines.next_ms() == 100
    assert due(deadlines, 99) == []
    assert due(deadlines, 100) == ["a"]
    assert (one.due_ms, one.queued_ms) == (NEVER, NEVER)
    assert due(deadlines, 10**12) == []


def test_moving_a_deadline_later_does_not_change_the_heap() -> None:
    deadlines, one = Deadlines(), Deadline("session", "g", "a")
    deadlines.set(one, 100)
    for due_ms in range(101, 200):
        deadlines.set(one, due_ms)
    assert len(deadlines) == 1
    assert deadlines.next_ms() == 100  # too early, which the caller must tolerate
    assert due(deadlines, 150) == []
    assert deadlines.next_ms() == 199
    assert due(deadlines, 199) == ["a"]


def test_a_deadline_moved_earlier_is_due_earlier_and_only_once() -> None:
    deadlines, one = Deadlines(), Deadline("session", "g", "a")
    deadlines.set(one, 300_000)
    deadlines.set(one, 10)
    assert due(deadlines, 10) == ["a"]
    assert due(deadlines, 300_000) == []
    assert deadlines.next_ms() is None


def test_a_cancelled_deadline_does_not_fall_due_but_can_be_set_again() -> None:
    deadlines, one = Deadlines(), Deadline("session", "g", "a")
    deadlines.cancel(one)
    deadlines.set(one, 10)
    deadlines.cancel(one)
    assert deadlines.next_ms() is None
    deadlines.set(one, 20)
    assert due(deadlines, 20) == ["a"]


def test_a_deadline_switched_off_in_its_field_is_dropped() -> None:
    deadlines, one = Deadlines(), Deadline("session", "g", "a")
    deadlines.set(one, 10)
    one.due_ms = NEVER
    assert due(deadlines, 10) == []
    assert len(deadlines) == 0


def test_equal_times_fall_due_in_the_order_of_setting() -> None:
    deadlines = Deadlines()
    for name in "cab":
        deadlines.set(Deadline("session", "g", name), 5)
    assert due(deadlines, 5) == ["c", "a", "b"]


def test_deadlines_of_members_that_left_do_not_accumulate() -> None:
    deadlines, stays = Deadlines(), Deadline("session", "g", "stays")
    deadlines.set(stays, 50)
    for i in range(10_000):
        one = Deadline("session", "g", str(i))
        deadlines.set(one, 300_000 + i)
        deadlines.cancel(one)
    assert len(deadlines) < 200
    assert due(deadlines, 10**9) == ["stays"]


def test_clear_forgets_everything() -> None:
    deadlines, one = Deadlines(), Deadline("session", "g", "a")
    deadlines.set(one, 10)
    deadlines.clear()
    assert (len(deadlines), one.due_ms, one.queued_ms) == (0, NEVER, NEVER)
    assert deadlines.next_ms() is None


STEPS = st.lists(
    st.tuples(st.sampled_from(["set", "cancel", "pass"]), st.integers(0, 7), st.integers(0, 60)), max_size=200
)


@given(STEPS)
def test_deadlines_behave_as_a_plain_list_of_times(steps: list[tuple[str, int, int]]) -> None:
    deadlines, ones = Deadlines(), [Deadline("session", "g", str(i)) for i in range(8)]
    model: dict[str, int] = {}
    now = 0
    for what, index, number in steps:
        if what == "set":
            deadlines.set(ones[index], now + number)
            model[str(index)] = now + number
        elif what == "cancel":
            deadlines.cancel(ones[index])
            model.pop(str(index), None)
        else:
            now += number
            expected = sorted(name for name, due_ms in model.items() if due_ms <= now)
            got = []
            last = 0
            while (next_ms := deadlines.next_ms()) is not None and next_ms <= now:
                assert next_ms >= last
                last = next_ms
                got += due(deadlines, next_ms)
            assert sorted(got) == expected
            assert deadlines.earliest_ms == (NEVER if next_ms is None else next_ms)
            assert all(model.pop(name) <= now for name in got)
    soonest = min(model.values(), default=None)
    seen = deadlines.earliest_ms
    looked = deadlines.next_ms()
    assert seen <= (NEVER if looked is None else looked)
    assert (soonest is None) or (looked is not None and looked <= soonest)


class Repeated(Deadline):
    every_ms = 100


def test_repeated_work_keeps_only_its_last_time() -> None:
    deadlines, work, once = Deadlines(), Repeated("work", ""), Deadline("session", "g", "m")
    assert deadlines.next_once_ms() == NEVER
    deadlines.leave_out(1_000)
    deadlines.set(work, 50)
    assert deadlines.next_once_ms() == NEVER
    deadlines.set(once, 420)
    assert deadlines.next_once_ms() == 420
    deadlines.leave_out(420)
    assert (work.due_ms, deadlines.next_ms(), deadlines.earliest_ms) == (350, 350, 350)
    deadlines.leave_out(420)  # nothing is skipped now
    assert work.due_ms == 350
    assert due(deadlines, 420) == ["", "m"]
    assert deadlines.next_ms() is None


def test_deadlines_before_repeated_work_are_not_skipped() -> None:
    deadlines, work, once = Deadlines(), Repeated("work", ""), Deadline("session", "g", "m")
    deadlines.set(once, 10)
    deadlines.set(work, 50)
    assert deadlines.next_once_ms() == 10
    deadlines.leave_out(10)
    assert (work.due_ms, once.due_ms) == (50, 10)
    deadlines.set(once, 900)  # its entry in the heap still has the time 10
    assert deadlines.next_once_ms() == 10
    assert due(deadlines, 40) == []
    assert deadlines.next_once_ms() == 900
    deadlines.cancel(once)
    deadlines.leave_out(900)
    assert work.due_ms == 850
