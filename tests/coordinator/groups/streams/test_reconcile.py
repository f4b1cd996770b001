"""The steps of members towards their targets, and the processes that have each task."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from muster.coordinator.groups.streams.member import STABLE, UNRELEASED_TASKS, UNREVOKED_TASKS, Position
from muster.coordinator.groups.streams.reconcile import Goal, next_position
from muster.coordinator.groups.streams.task_owners import TaskOwners
from muster.coordinator.groups.streams.tasks import Held, Tasks, without_epochs


def held(active: str = "", standby: str = "", warmup: str = "", epoch: int = 2) -> Held:
    """Tasks of subtopology 0, such as "012"."""
    return Held(
        {"0": {int(one): epoch for one in active}} if active else {},
        {"0": frozenset(map(int, standby))} if standby else {},
        {"0": frozenset(map(int, warmup))} if warmup else {},
    )


def wanted(active: str = "", standby: str = "", warmup: str = "") -> Tasks:
    its = held(active, standby, warmup)
    return Tasks(without_epochs(its.active), its.standby, its.warmup)


def step(
    had: Held,
    target: Tasks,
    *,
    others: Held | None = None,
    process: str = "q",
    state: int = STABLE,
    owned: Tasks | None = None,
) -> Position:
    """The next position of a member in process p, while another member in `process` has the tasks `others`."""
    owners = TaskOwners()
    owners.add(had, "p")
    if others is not None:
        owners.add(others, process)
    return next_position(Position(2, 1, state, had), Goal("p", 3, target, owners, owned))


@pytest.mark.parametrize(
    ("had", "target", "after"),
    [
        (held("0"), wanted(standby="0"), held(standby="0")),
        (held(standby="0"), wanted(warmup="0"), held(warmup="0")),
        (held(warmup="0"), wanted(standby="0"), held(standby="0")),
        (held(standby="0"), wanted("0"), held("0", epoch=3)),
        (held(warmup="0"), wanted("0"), held("0", epoch=3)),
        (held("0"), wanted("01", "2", "3"), Held({"0": {0: 2, 1: 3}}, {"0": frozenset([2])}, {"0": frozenset([3])})),
    ],
)
def test_a_task_changes_its_role_in_its_member(had: Held, target: Tasks, after: Held) -> None:
    made = step(had, target, owned=wanted())
    assert (made.epoch, made.state, made.assigned) == (3, STABLE, after)


def test_a_copy_stays_until_the_member_gets_the_active_task() -> None:
    made = step(held(standby="0"), wanted("0"), others=held("0"))
    assert (made.state, made.assigned) == (UNRELEASED_TASKS, held(standby="0"))
    made = step(held("1", standby="0"), wanted("0"), owned=wanted("1", "0"))
    assert (made.state, made.epoch, made.assigned, made.revoking) == (
        UNREVOKED_TASKS, 2, held(standby="0"), held("1"),
    )  # fmt: skip


@pytest.mark.parametrize("target", [wanted("0"), wanted(standby="0"), wanted(warmup="0")])
@pytest.mark.parametrize("others", [held("0"), held(standby="0"), held(warmup="0")])
def test_a_process_has_one_copy_of_a_task(target: Tasks, others: Held) -> None:
    made = step(held(), target, others=others, process="p")
    assert (made.state, made.assigned) == (UNRELEASED_TASKS, held())


@pytest.mark.parametrize(
    ("target", "others", "state"),
    [
        (wanted("0"), held("0"), UNRELEASED_TASKS), (wanted("0"), held(standby="0", warmup="0"), STABLE),
        (wanted(standby="0"), held("0", "0", "0"), STABLE), (wanted(warmup="0"), held("0", "0", "0"), STABLE),
    ],
)  # fmt: skip
def test_copies_in_other_processes_are_no_hindrance(target: Tasks, others: Held, state: int) -> None:
    assert step(held(), target, others=others).state == state


def test_a_member_that_waited_goes_on() -> None:
    made = step(held(standby="1"), wanted("0", "1"), state=UNRELEASED_TASKS)
    assert (made.state, made.assigned) == (STABLE, Held({"0": {0: 3}}, {"0": frozenset([1])}))


@given(st.integers(0, 2**32))
def test_a_step_gives_nothing_that_was_not_had_or_wanted(seed: int) -> None:
    rng = random.Random(seed)

    def some() -> str:
        return "".join(str(one) for one in range(4) if rng.random() < 0.5)

    had, others = held(some(), some(), some()), held(some(), some(), some())
    target = wanted(some(), some(), some())
    made = step(had, target, others=others, process=rng.choice("pq"), owned=rng.choice([None, wanted(some())]))
    for kind, its, before in zip(target, made.assigned, had, strict=True):
        assert set(its.get("0", ())) <= {*kind.get("0", ()), *before.get("0", ())}
    assert made.epoch in (2, 3)
    if made.state == UNREVOKED_TASKS:
        assert (made.epoch, made.revoking.is_empty()) == (2, False)
    gained = set(made.assigned.active.get("0", {})) - set(had.active.get("0", {}))
    assert not gained & set(others.active.get("0", {}))


def test_two_members_of_a_process_may_have_had_one_copy() -> None:
    owners = TaskOwners()
    for _ in range(2):
        owners.add(held("0", "1", "2"), "p")
    owners.add(held(standby="1"), "q")
    for _ in range(2):
        owners.remove(held("0", "1", "2"), "p")
    assert (owners.active, owners.standby, owners.warmup) == ({}, {"0": {1: {"q"}}}, {})
    owners.add(held("0"), "q")
    owners.remove(held("0"), "p")
    assert owners.active == {"0": {0: "q"}}
