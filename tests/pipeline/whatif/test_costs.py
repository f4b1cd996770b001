"""The sums, for hand-made rebalances."""

from __future__ import annotations

import pytest

from muster.pipeline.whatif.costs import Costs, Figures
from muster.pipeline.whatif.history import FAR


def test_an_eager_rebalance_pauses_everything() -> None:
    costs = Costs()
    costs.completed(1_000, {"a": {"t": [0, 1, 2, 3]}}, cooperative=False)
    costs.began(2_000)
    costs.completed(2_500, {"a": {"t": [0, 1]}, "b": {"t": [2, 3]}}, cooperative=False)
    assert costs.figures(9_000) == Figures(2, 2, 4 * 500, 0, None)


def test_a_failed_attempt_is_part_of_the_pause() -> None:
    costs = Costs()
    costs.given({"a": {"t": [0]}})
    costs.began(2_000)
    costs.began(2_400)
    costs.completed(3_000, {"a": {"t": [0]}}, cooperative=False)
    assert costs.figures(9_000).paused_partition_ms == 1_000


def test_a_cooperative_rebalance_pauses_what_moves_from_one_round_to_the_next() -> None:
    costs = Costs()
    costs.given({"a": {"t": [0, 1, 2, 3]}})
    costs.began(2_000)
    costs.completed(2_500, {"a": {"t": [0, 1]}, "b": {}}, cooperative=True)
    costs.began(2_600)
    costs.completed(3_000, {"a": {"t": [0, 1]}, "b": {"t": [2, 3]}}, cooperative=True)
    assert costs.figures(9_000) == Figures(2, 2, 2 * 500, 0, None)


def test_partitions_of_a_missing_member_have_no_owner_in_a_cooperative_group() -> None:
    costs = Costs()
    costs.given({"a": {"t": [0]}, "b": {"t": [1]}})
    costs.vanished("b", 1_000)
    costs.gone("b", 6_000)
    costs.began(6_000)
    costs.completed(6_300, {"a": {"t": [0, 1]}}, cooperative=True)
    assert costs.figures(9_000) == Figures(1, 1, 300, 5_000, 5_000.0)


def test_an_unsubscribed_partition_does_not_pause_for_ever() -> None:
    costs = Costs()
    costs.given({"a": {"t": [0], "u": [0]}})
    for ms in (1_000, 2_000):
        costs.began(ms)
        costs.completed(ms, {"a": {"t": [0]}}, cooperative=True)
    costs.began(50_000)
    costs.completed(50_000, {"a": {"t": [0], "u": [0]}}, cooperative=True)
    assert costs.figures(90_000).paused_partition_ms == 0


def test_a_pause_that_lasts_at_the_end_counts_until_then() -> None:
    costs = Costs()
    costs.given({"a": {"t": [0, 1]}})
    costs.began(2_000)
    assert costs.figures(2_700).paused_partition_ms == 1_400


@pytest.mark.parametrize("cooperative", [False, True])
def test_an_empty_group_has_pauses_only_while_members_want_to_read(cooperative: bool) -> None:
    costs = Costs([(0, 2_000), (9_000, FAR)])
    costs.given({"a": {"t": [0, 1]}})
    costs.gone("a", 2_000)
    costs.began(2_000)
    costs.emptied(2_000)
    costs.began(9_000)
    costs.completed(9_500, {"b": {"t": [0, 1]}}, cooperative=cooperative)
    assert costs.figures(20_000) == Figures(1, 2, 2 * 500, 0, None, 2 * 500)


def test_the_time_between_the_last_leave_and_the_next_join_is_silent() -> None:
    costs = Costs([(0, FAR)])
    costs.given({"a": {"t": [0, 1]}})
    costs.gone("a", 2_000)
    costs.began(2_000)
    costs.emptied(2_000)
    costs.began(9_000)
    assert costs.figures(10_000) == Figures(0, 0, 2 * 1_000, 2 * 7_000, None)


def test_the_wait_of_a_new_group_is_a_pause_of_what_it_gets() -> None:
    costs = Costs()
    costs.began(1_000)
    costs.completed(4_000, {"a": {"t": [0, 1]}}, cooperative=False)
    assert costs.figures(9_000) == Figures(1, 0, 2 * 3_000, 0, None, 2 * 3_000)


def test_a_new_group_that_still_waits_is_paused() -> None:
    costs = Costs()
    costs.began(1_000)
    assert costs.figures(9_000, unassigned=3).paused_partition_ms == 3 * 8_000


def test_members_that_leave_before_their_first_assignment_have_waited_in_vain() -> None:
    costs = Costs()
    costs.began(1_000)
    costs.emptied(7_000)
    assert costs.figures(60_000, unassigned=3).paused_partition_ms == 3 * 6_000
    assert costs.figures(60_000, unassigned=3).forming_partition_ms == 3 * 6_000


def test_what_members_waited_in_vain_counts_for_the_partitions_of_a_later_assignment() -> None:
    costs = Costs()
    costs.began(1_000)
    costs.emptied(7_000)
    costs.began(8_000)
    costs.completed(9_000, {"a": {"t": [0, 1]}}, cooperative=False)
    assert costs.figures(9_000).paused_partition_ms == 2 * (6_000 + 1_000)


def test_a_member_dead_at_the_end_is_silent_until_then() -> None:
    costs = Costs()
    costs.given({"a": {"t": [0]}, "b": {"t": [1, 2]}})
    costs.vanished("b", 1_000)
    assert costs.figures(61_000) == Figures(0, 0, 0, 2 * 60_000, None)


def test_when_nobody_is_left_that_wants_to_read_silence_costs_nothing() -> None:
    costs = Costs([(0, 3_000)])
    costs.given({"a": {"t": [0]}, "b": {"t": [1]}})
    costs.vanished("a", 1_000)
    costs.vanished("b", 3_000)
    assert costs.figures(61_000).silent_partition_ms == 2_000


def test_a_rebalance_that_waits_for_the_dead_counts_once() -> None:
    costs = Costs()
    costs.given({"a": {"t": [0]}, "b": {"t": [1]}})
    costs.vanished("b", 1_000)
    costs.began(2_000)
    costs.gone("b", 11_000)
    costs.completed(11_000, {"a": {"t": [0]}, "c": {"t": [1]}}, cooperative=False)
    assert costs.figures(20_000) == Figures(1, 1, 2 * 9_000, 1_000, 10_000.0)


def test_a_cooperative_rebalance_pauses_only_the_dead_members_partitions() -> None:
    costs = Costs()
    costs.given({"a": {"t": [0]}, "b": {"t": [1]}})
    costs.vanished("b", 1_000)
    costs.began(2_000)
    costs.gone("b", 11_000)
    costs.completed(11_000, {"a": {"t": [0]}, "c": {"t": [1]}}, cooperative=True)
    assert costs.figures(20_000) == Figures(1, 1, 9_000, 1_000, 10_000.0)


def test_a_member_absent_during_a_rebalance_is_silent_before_and_after() -> None:
    costs = Costs()
    costs.given({"a": {"t": [0]}, "b": {"t": [1]}})
    costs.vanished("b", 1_000)
    costs.began(2_000)
    costs.completed(5_000, {"a": {"t": [0]}, "b": {"t": [1]}}, cooperative=False)
    costs.back("b", 6_000)
    assert costs.figures(20_000) == Figures(1, 0, 2 * 3_000, 1_000 + 1_000, None)
