"""Restarts that belong together, and when they would have happened."""

from __future__ import annotations

from muster.pipeline.whatif.history import LEFT, Stay
from muster.pipeline.whatif.schedule import GAP_MS, deploys, shifted
from muster.pipeline.whatif.settings import ALL_AT_ONCE
from tests.pipeline.whatif.test_processes import clients, stay


def restarted(*times: tuple[str, int, int]) -> list[Stay]:
    """Members that were in the group, stopped and returned."""
    return [
        one
        for name, stop_ms, start_ms in times
        for one in (stay(f"{name}-1", None, LEFT, stop_ms), stay(f"{name}-2", start_ms))
    ]


ROLLING = (("a", 10_000, 12_000), ("b", 20_000, 23_000), ("c", 30_000, 32_000), ("d", 40_000, 42_000))


def test_restarts_one_after_the_other_are_a_deploy() -> None:
    (found,) = deploys(clients(*restarted(*ROLLING)))
    assert [(one.stop_ms, one.start_ms) for one in found] == [row[1:] for row in ROLLING]


def test_few_restarts_are_no_deploy() -> None:
    others = [stay(f"x{number}-1", None) for number in range(5)]
    assert deploys(clients(*restarted(*ROLLING[:2]), *others)) == []
    assert deploys(clients(*restarted(("a", 10_000, 12_000)))) == []


def test_restarts_far_apart_and_those_of_one_process_are_several() -> None:
    assert deploys(clients(*restarted(("a", 10_000, 12_000), ("b", 12_001 + GAP_MS, 13_000 + GAP_MS)))) == []
    flapping = [stay(f"a-{at}", at * 5_000, LEFT, at * 5_000 + 2_000) for at in range(1, 6)]
    assert deploys(clients(*flapping)) == []


def test_a_deploy_can_be_shifted_to_all_at_once() -> None:
    found = clients(*restarted(*ROLLING))
    starts, stops = shifted(found, ALL_AT_ONCE)
    assert set(stops.values()) == {10_000}
    # each is away as long as it really was
    assert sorted(starts.values()) == [12_000, 12_000, 12_000, 13_000]


def test_a_deploy_can_be_shifted_to_two_at_a_time() -> None:
    found = clients(*restarted(*ROLLING))
    starts, stops = shifted(found, 2)
    # the next two when those before are back, and as much later as it really was: 8 s at the median
    assert sorted(stops.values()) == [10_000, 10_000, 21_000, 21_000]
    assert sorted(starts.values()) == [12_000, 13_000, 23_000, 23_000]


def test_a_deploy_that_would_reach_into_what_came_later_stays_as_it_was() -> None:
    together = [(name, 10_000, 12_000) for name in "abcd"]
    stays = restarted(*together)
    for one in stays:
        if one.member_id.endswith("-2"):
            one.end, one.end_ms = LEFT, 14_000
    assert shifted(clients(*stays), 1) == ({}, {})
