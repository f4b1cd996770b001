"""What the last commits of members say of their ends."""

from __future__ import annotations

import pytest

from muster.pipeline.whatif import from_events
from muster.pipeline.whatif.advice import advice
from muster.pipeline.whatif.compare import Comparison, compare
from muster.pipeline.whatif.history import LEFT, LOG, REPLACED, History, Stay
from muster.pipeline.whatif.processes import add_last_commits, polled_too_late
from muster.pipeline.whatif.settings import DEFAULT_GRID, Setting, parse
from tests.pipeline.whatif.reality import GROUP
from tests.pipeline.whatif.test_compare import near, restart, running

AWAY_MS = 5_000


def static_restart(*settings: str) -> Comparison:
    """One of three static members is away for AWAY_MS, and committed when it stopped."""
    world, members = running("a", "b", "c", instances=True)
    old, stopped_ms = members["b"].member_id, world.ms
    restart(world, members["b"], AWAY_MS)
    history = from_events.history_of(GROUP, world.events, world.ms)
    add_last_commits(history, {old: [stopped_ms]})
    return compare(history, [Setting(), *(one for text in settings for one in parse(text))])


def test_the_time_that_a_really_static_member_is_away_is_charged_as_that_of_a_converted_one() -> None:
    found = static_restart()
    assert not found.fidelity.withheld
    (as_it_was,) = [one.figures for one in found.whatif]
    assert as_it_was == found.actual
    assert found.actual.silent_partition_ms == near(3 * AWAY_MS)
    assert found.actual.rebalances == 1


def test_a_shorter_session_would_have_put_it_out() -> None:
    shorter = static_restart("session.timeout.ms=3000").whatif[1].figures
    assert shorter is not None
    # it returns while the others are joining because of its end
    assert (shorter.rebalances, shorter.detect_ms) == (2, 3_000)


def _stay(name: str, silent_ms: int, end: str = LEFT, session_ms: int = 10_000) -> tuple[Stay, int]:
    stay = Stay(name, "i" if end == REPLACED else None, "c", "/h", session_ms, 60_000, joined_ms=1_000)
    stay.end, stay.end_ms = end, 500_000
    return stay, 500_000 - silent_ms


def _heard(*some: tuple[Stay, int]) -> list[Stay]:
    history = History("g", LOG, stays=[one for one, _ in some])
    add_last_commits(history, {one.member_id: [ms] for one, ms in some})
    return history.stays


@pytest.mark.parametrize(("silent_ms", "heard_ms"), [(4_000, 496_000), (8_900, 491_100), (9_500, None), (0, None)])
def test_a_static_member_silent_for_a_session_had_nothing_to_commit(silent_ms: int, heard_ms: int | None) -> None:
    (stay,) = _heard(_stay("a", silent_ms, REPLACED))
    assert stay.heard_ms == heard_ms


@pytest.mark.parametrize(
    ("silent", "reported"),
    [((60_000, 61_000), True), ((60_000,), False), ((30_000, 30_000), False), ((200_000, 200_000), False)],
)
def test_a_member_that_left_twice_at_its_poll_timeout_is_slow(silent: tuple[int, ...], reported: bool) -> None:
    stays = _heard(*(_stay(f"m-{number}", ms) for number, ms in enumerate(silent)))
    assert [polled_too_late(one) for one in stays] == [reported] * len(silent)


def test_a_client_without_a_time_to_poll_is_not_slow() -> None:
    stays = _heard(*(_stay(f"m-{number}", 60_000, session_ms=60_000) for number in range(3)))
    assert not any(map(polled_too_late, stays))


def test_a_slow_poller_is_advised_to_be_given_time_and_nothing_else() -> None:
    world, members = running("a", "b", "c")
    heard: dict[str, list[int]] = {}
    for member in members.values():
        member.rebalance_ms = 60_000
    world.run(60_000)
    for _ in range(3):
        heard[members["b"].member_id] = [world.ms]
        world.run(60_000)
        restart(world, members["b"], 2_000)
    history = from_events.history_of(GROUP, world.events, world.ms)
    for stay in history.stays:
        stay.rebalance_timeout_ms = 60_000
    add_last_commits(history, heard)
    found = compare(history, DEFAULT_GRID)
    assert not found.fidelity.withheld, found.fidelity
    got = advice(history, found)
    assert got is not None
    assert got.sentence.startswith("max.poll.interval.ms=300000 would have spared 5 of 6 rebalances")
    assert got.sentence.endswith("; a member that hangs would stay one for 4 min longer")
