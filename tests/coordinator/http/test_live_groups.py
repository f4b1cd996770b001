"""Lag, rates and order of groups, from rows that are read again and again."""

from __future__ import annotations

from muster.coordinator.http.kafka_metrics import GroupRow, PartitionRow, TopicRow
from muster.coordinator.http.live_groups import LiveGroups
from muster.coordinator.system.jobs import at_once


def topics(*ends: int) -> list[TopicRow]:
    rows = [PartitionRow(number, 0, end, 1, 1, 1) for number, end in enumerate(ends)]
    return [TopicRow("orders", len(rows), rows)]


def group(name: str, *offsets: int, state: str = "Stable", members: int = 1) -> GroupRow:
    rows = [(number, offset, None) for number, offset in enumerate(offsets)]
    return GroupRow(name, "classic", state, members, [("orders", rows)] if rows else [])


def test_the_lag_and_the_rates_are_sums_over_partitions() -> None:
    live = LiveGroups()
    at_once(live.take(topics(100, 100), [group("g", 90, 50)], 1_000))
    one = live.groups["g"]
    assert (one.lag, one.rates.committed_s, one.partitions) == (60, None, 2)
    at_once(live.take(topics(110, 110), [group("g", 100, 80)], 6_000))
    assert (one.lag, one.rates) == (40, (8.0, 4.0))
    assert one.rates.catch_up_s(one.lag) == 10.0
    assert one.topics["orders"].lag == 40
    assert live.ends["orders"] == {0: (0, 110), 1: (0, 110)}


def test_offsets_that_were_set_back_have_no_rate() -> None:
    live = LiveGroups()
    for at_ms, offset in ((0, 90), (5_000, 10)):
        at_once(live.take(topics(100), [group("g", offset)], at_ms))
    assert live.groups["g"].rates.committed_s is None
    assert live.groups["g"].rates.catch_up_s(90) is None


def test_a_group_at_rest_keeps_two_samples_and_its_rate_is_known() -> None:
    live = LiveGroups()
    for step in range(100):
        at_once(live.take(topics(100), [group("g", 90)], 5_000 * step))
    one = live.groups["g"]
    assert ([sample.at_ms for sample in one.samples], one.rates, one.is_stuck) == ([0, 495_000], (0.0, 0.0), True)
    at_once(live.take(topics(100), [group("g", 100)], 500_000))
    assert (one.rates.committed_s, one.is_stuck) == (2.0, False)


def test_the_worst_group_is_the_first() -> None:
    live = LiveGroups()
    for step in range(8):
        rows = [
            group("fine", 1_000 + 100 * step),
            group("grows", 900 + 50 * step),
            group("moves", 1_000, state="Reconciling"),
            group("stuck", 500),
            group("empty", 400, state="Empty", members=0),
        ]
        at_once(live.take(topics(1_000 + 100 * step), rows, 5_000 * step))
    assert [(one.group, one.trouble) for one in live.rows()] == [
        ("stuck", 3), ("moves", 2), ("empty", 1), ("grows", 1), ("fine", 0)
    ]  # fmt: skip


def test_pages_are_in_order_and_have_each_group_once() -> None:
    live = LiveGroups()
    names = [f"g{number:04}" for number in range(1_000)]
    at_once(live.take(topics(100), [group(name, 10) for name in names], 1_000))
    seen = []
    for skip in range(0, 1_000, 300):
        found, matching = at_once(live.page(lambda _: True, "name", skip, 300))
        assert matching == 1_000
        seen += [one.group for one in found]
    assert seen == names
    found, matching = at_once(live.page(lambda one: one.group == "g0007", "worst", 0, 10))
    assert ([one.group for one in found], matching) == (["g0007"], 1)
    at_once(live.take(topics(100), [group("g0001", 10)], 2_000))
    assert list(live.groups) == ["g0001"]


def test_the_newest_rebalance_stays() -> None:
    live = LiveGroups()
    at_once(live.take(topics(1), [group("g")], 1_000))
    live.note_rebalance("g", 20, "second")
    live.note_rebalance("g", 10, "first")
    live.note_rebalance("gone", 10, "of a group that is gone")
    assert live.groups["g"].last_rebalance == (20, "second")
