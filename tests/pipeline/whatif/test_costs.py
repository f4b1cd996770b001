"""The sums, on rebalances by hand."""

from __future__ import annotations

from muster.pipeline.whatif.costs import Costs, Figures


def test_an_eager_rebalance_pauses_everything() -> None:
    costs = Costs()
    costs.completed(1_000, {"a": {"t": [0, 1, 2, 3]}}, cooperative=False)
    costs.began(2_000)
    costs.completed(2_500, {"a": {"t": [0, 1]}, "b": {"t": [2, 3]}}, cooperative=False)
    assert costs.figures(9_000, cooperative=False) == Figures(2, 2, 4 * 500, 0, None)


def test_a_failed_attempt_is_part_of_the_pause() -> None:
    costs = Costs()
    costs.given({"a": {"t": [0]}})
    costs.began(2_000)
    costs.began(2_400)
    costs.completed(3_000, {"a": {"t": [0]}}, cooperative=False)
    assert costs.figures(9_000, cooperative=False).paused_partition_ms == 1_000


def test_a_cooperative_rebalance_pauses_what_moves_from_one_round_to_the_next() -> None:
    costs = Costs()
    costs.given({"a": {"t": [0, 1, 2, 3]}})
    costs.began(2_000)
    costs.completed(2_500, {"a": {"t": [0, 1]}, "b": {}}, cooperative=True)
    costs.began(2_600)
    costs.completed(3_000, {"a": {"t": [0, 1]}, "b": {"t": [2, 3]}}, cooperative=True)
    assert costs.figures(9_000, cooperative=True) == Figures(2, 2, 2 * 500, 0, None)


def test_under_a_cooperative_strategy_nobody_has_the_partitions_of_who_is_gone() -> None:
    costs = Costs()
    costs.given({"a": {"t": [0]}, "b": {"t": [1]}})
    costs.silent("b", 1_000, 6_000, removed=True)
    costs.gone("b", 6_000)
    costs.began(6_000)
    costs.completed(6_300, {"a": {"t": [0, 1]}}, cooperative=True)
    assert costs.figures(9_000, cooperative=True) == Figures(1, 1, 300, 5_000, 5_000.0)


def test_what_nobody_subscribes_to_any_more_is_not_paused_for_ever() -> None:
    costs = Costs()
    costs.given({"a": {"t": [0], "u": [0]}})
    for ms in (1_000, 2_000):
        costs.began(ms)
        costs.completed(ms, {"a": {"t": [0]}}, cooperative=True)
    costs.began(50_000)
    costs.completed(50_000, {"a": {"t": [0], "u": [0]}}, cooperative=True)
    assert costs.figures(90_000, cooperative=True).paused_partition_ms == 0


def test_what_is_on_at_the_end_counts_so_far() -> None:
    costs = Costs()
    costs.given({"a": {"t": [0, 1]}})
    costs.began(2_000)
    assert costs.figures(2_700, cooperative=False).paused_partition_ms == 1_400


def test_an_empty_group_waits_for_nobody() -> None:
    costs = Costs()
    costs.given({"a": {"t": [0, 1]}})
    costs.gone("a", 2_000)
    costs.began(2_000)
    costs.emptied()
    costs.began(9_000)
    costs.completed(9_500, {"b": {"t": [0, 1]}}, cooperative=False)
    assert costs.figures(20_000, cooperative=False) == Figures(1, 2, 0, 0, None)
