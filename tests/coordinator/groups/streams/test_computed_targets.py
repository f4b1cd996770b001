"""Large targets of a streams group are computed in the background: the answers meanwhile, and what comes of them."""

from __future__ import annotations

from typing import Any

from muster.coordinator.groups.streams.answers import ASSIGNMENT_DELAYED
from muster.coordinator.groups.streams.target import AT_ONCE
from tests.coordinator.groups.streams.harness import StreamsGroupHarness, given, topics

TASKS = AT_ONCE + 4


def large(**more: Any) -> StreamsGroupHarness:
    return StreamsGroupHarness(image=topics(t=TASKS), helped=True, **more)


def counts(harness: StreamsGroupHarness) -> dict[str, int]:
    return {one: sum(map(len, its.active.values())) for one, its in harness.streams().targets.items()}


def is_delayed(answer: Any) -> bool:
    return ASSIGNMENT_DELAYED in [one.status_code for one in answer.status or ()]


def settled() -> StreamsGroupHarness:
    """A group with the member A, which has all tasks."""
    harness = large()
    harness.heartbeat("A", 0, "0:t")
    harness.notify(harness.compute())
    harness.heartbeat("A")
    harness.written()
    return harness


def test_the_first_member_gets_large_targets_with_a_later_heartbeat() -> None:
    harness = large()
    answer = harness.heartbeat("A", 0, "0:t")
    assert (answer.member_epoch, given(answer), is_delayed(answer)) == (1, "", True)
    assert harness.streams().state == "Assigning"
    assert is_delayed(harness.heartbeat("A"))
    assert len(harness.offloaded) == 1
    harness.notify(harness.compute())
    assert [one.partition(" ")[0] for one in harness.written()[-2:]] == [
        "TargetAssignmentMember", "TargetAssignmentMetadata"
    ]  # fmt: skip
    answer = harness.heartbeat("A", active="", standby="", warmup="")
    assert answer.member_epoch == 2
    assert len(answer.active_tasks[0].partitions) == TASKS
    assert not is_delayed(answer)
    assert harness.streams().state == "Stable"
    assert "target_assigned" in harness.kinds()


def test_small_targets_are_computed_in_the_heartbeat() -> None:
    harness = StreamsGroupHarness(helped=True)
    assert given(harness.heartbeat("A", 0, "0:t")) == "0/0+1+2"
    assert not harness.offloaded


def test_an_application_that_is_not_ready_has_no_tasks_to_compute() -> None:
    harness = large()
    answer = harness.heartbeat("A", 0, "0:t,soon")
    assert (given(answer), harness.streams().state, harness.offloaded) == ("", "NotReady", [])


def test_standby_copies_count_as_tasks() -> None:
    harness = StreamsGroupHarness(
        image=topics(t=TASKS // 2, s=TASKS // 2), helped=True, group_streams_num_standby_replicas=1
    )
    harness.heartbeat("A", 0, "0:t%s")
    assert len(harness.offloaded) == 1


def test_the_present_members_get_the_targets_and_the_next_heartbeat_asks_for_the_others() -> None:
    harness = settled()
    harness.heartbeat("B", 0, "0:t")
    computed = harness.compute()
    for member in "CD":
        harness.heartbeat(member, 0, "0:t")
    harness.heartbeat("B", -1)
    harness.notify(computed)
    assert counts(harness) == {"A": TASKS // 2}
    assert harness.streams().assignment_epoch == 3 < harness.streams().epoch == 6
    harness.heartbeat("A")
    harness.notify(harness.compute())
    assert counts(harness).keys() == set("ACD")
    assert harness.streams().assignment_epoch == 6


def test_a_static_member_that_returns_meanwhile_gets_the_target_of_its_old_id() -> None:
    harness = settled()
    harness.heartbeat("B", 0, "0:t", instance_id="b", process_id="p")
    computed = harness.compute()
    harness.heartbeat("B", -2, instance_id="b")
    harness.heartbeat("B2", 0, "0:t", instance_id="b", process_id="p")
    harness.notify(computed)
    assert counts(harness) == {"A": TASKS // 2, "B2": TASKS // 2}
    assert "TargetAssignmentMember B2" in " ".join(harness.written())


def test_targets_of_a_group_that_was_empty_meanwhile_or_made_again_are_dropped() -> None:
    harness = settled()
    harness.heartbeat("B", 0, "0:t")
    computed = harness.compute()
    harness.heartbeat("A", -1)
    harness.heartbeat("B", -1)
    harness.written()
    harness.notify(computed)
    assert not harness.written()
    assert not harness.streams().targets
    harness.notify(computed)
    assert not harness.written()


def test_the_next_heartbeat_asks_again_when_the_computation_fails() -> None:
    harness = settled()
    harness.heartbeat("B", 0, "0:t")
    harness.notify(harness.compute()._replace(computed=None))
    assert not harness.written()[3:]
    assert is_delayed(harness.heartbeat("A"))
    harness.notify(harness.compute())
    assert counts(harness) == {"A": TASKS // 2, "B": TASKS // 2}


def test_targets_that_do_not_fit_into_a_batch_are_not_put_in_force() -> None:
    harness = settled()
    harness.heartbeat("B", 0, "0:t")
    harness.written()
    harness.max_bytes = 100
    harness.notify(harness.compute())
    assert not harness.written()
    assert counts(harness) == {"A": TASKS}


def test_large_first_targets_are_computed_in_the_background_after_the_initial_delay() -> None:
    harness = large(group_streams_initial_rebalance_delay_ms=1_000)
    for member in "AB":
        harness.heartbeat(member, 0, "0:t")
    assert not harness.offloaded
    harness.advance(1_000)
    harness.notify(harness.compute())
    assert counts(harness) == {"A": TASKS // 2, "B": TASKS // 2}


def test_the_targets_are_those_that_a_heartbeat_computes() -> None:
    usual, quick = StreamsGroupHarness(image=topics(t=TASKS)), large()
    for harness in (usual, quick):
        for member in "ABC":
            harness.heartbeat(member, 0, "0:t")
            if harness.offloaded:
                harness.notify(harness.compute())
            harness.heartbeat(member, active="", standby="", warmup="")
    assert usual.streams().targets == quick.streams().targets
    assert usual.streams().assignment_epoch == quick.streams().assignment_epoch
