from __future__ import annotations

import random

import pytest

from muster.pipeline.infer.evidence import Activity, State
from muster.pipeline.infer.history import rebalances
from muster.pipeline.infer.start import Start
from tests.pipeline.infer.states import every, last, member, parting, state

A, B, C = member("a"), member("b"), member("c")
BUSY = {"a": every(1, 2, 100), "b": every(1, 2, 100)}


def began(*states: State) -> Start:
    found = last(*states).start
    assert found is not None
    assert found.earliest_ms <= found.likely_ms <= found.latest_ms <= states[-1].joined_ms
    return found


def test_a_leave_is_dated_by_the_last_commit() -> None:
    left = began(state(1, 1, [A, B, C], BUSY | {"c": parting(every(1, 2, 98), 98.4)}), state(101, 2, [A, B]))
    assert (left.earliest_ms, left.likely_ms, left.is_seen) == (98_400, 98_402, True)
    assert left.latest_ms - left.earliest_ms < 300


def test_a_regular_commit_does_not_date_a_leave() -> None:
    left = began(state(1, 1, [A, B, C], BUSY | {"c": every(1, 2, 99)}), state(100.5, 2, [A, B]))
    assert not left.is_seen
    assert (left.earliest_ms, left.latest_ms) == (99_000, 100_400)


def test_an_expiration_is_dated_after_the_unseen_last_heartbeat() -> None:
    died = began(state(1, 1, [A, B, C], BUSY | {"c": every(1, 2, 89)}), state(101, 2, [A, B]))
    assert (died.earliest_ms, died.latest_ms) == (99_000, 100_400)


def test_a_join_is_dated_by_the_heartbeat_interval() -> None:
    rare = {"a": every(60, 60, 540), "b": every(60, 60, 540)}
    joined = began(state(0, 1, [A, B], rare), state(595, 2, [A, B, C]))
    assert 594_995 - 3_700 <= joined.earliest_ms <= 594_995 - 3_000
    assert joined.latest_ms == 594_995
    assert 1_000 < 594_995 - joined.likely_ms < 2_000


def test_members_that_rejoin_at_once_date_the_start() -> None:
    assert began(state(0, 1, [A]), state(0.5, 2, [A, B])).earliest_ms == 0


def test_the_rejoin_time_is_learned_from_leaves() -> None:
    """Each time one leaves, the others are back within 0.4 to 0.9 s. Before a new member joins, nothing shows their
    rejoin times.
    """
    states, at_s = [state(0, 0), state(1, 1, [A, B, C])], 1.0
    for turn, back_s in enumerate((0.4, 0.9, 0.7, 0.5, 0.8, 0.6, 0.9, 0.4)):
        gone_s = at_s + 20.4
        busy = {name: every(1, at_s + 1, at_s + 20) for name in ("a", "b")}
        states[-1] = states[-1]._replace(
            activity={f"{name}-1": one for name, one in busy.items()} | {"c-1": parting(busy["a"], gone_s)}
        )
        at_s = gone_s + back_s
        states += [state(at_s, 2 * turn + 2, [A, B]), state(at_s + 40, 2 * turn + 3, [A, B, C])]
        at_s += 40
    joined = began(*states)
    assert 900 <= joined.latest_ms - joined.earliest_ms <= 1_500


def test_members_that_revoked_partitions_rejoin_at_once() -> None:
    sticky = {"protocol": "cooperative-sticky", "counts": {"t": 4}}
    first = state(1, 1, [A._replace(owned=4, assigned=4)], **sticky)
    gave = state(10, 2, [A._replace(owned=4, assigned=2), B._replace(assigned=0)], protocol="cooperative-sticky")
    after = state(12.9, 3, [A._replace(owned=2, assigned=2), B._replace(assigned=2)], **sticky)
    second = began(first, gave._replace(counts={"t": 2}), after)
    assert (second.earliest_ms, second.likely_ms) == (10_000, 10_012)
    assert 10_400 <= second.latest_ms < 10_500


def test_a_group_of_one_member_is_empty_when_it_leaves() -> None:
    alone = began(state(1, 1, [A], {"a": every(60, 60, 540)}), state(595, 2))
    assert alone.likely_ms == 594_995
    assert alone.is_seen


def test_members_that_died_in_an_outage_expire_when_it_ends() -> None:
    """Without the outage their sessions of 10 s would have ended at 110 s."""
    away = began(state(1, 1, [A, B], BUSY), state(118, 2))
    assert away.likely_ms == 117_994
    at_once = began(state(1, 1, [A, B], BUSY), state(110.5, 2))
    assert at_once.earliest_ms == 110_000
    assert at_once.likely_ms < 110_495
    # if the last session ends with the join phase, all members lived until their last commits
    to_the_ms = began(state(1, 1, [A, B], BUSY | {"b": every(1, 2, 99)}), state(110.005, 2))
    assert to_the_ms.likely_ms == 109_000


def test_several_simultaneous_leaves_are_dated_by_their_commits() -> None:
    """The last of them left 12 ms after its commit: the first one did so, too."""
    some = {"a": parting(every(1, 2, 98), 98.4), "b": parting(every(1, 2, 98), 98.9)}
    left = began(state(1, 1, [A, B], some), state(98.917, 2))
    assert (left.earliest_ms, left.likely_ms) == (98_400, 98_412)


def test_a_likely_last_commit_dates_an_expiration() -> None:
    """The member commits ten times as often as it sends heartbeats: its session began with the commit."""
    often = {"a": every(0.3, 2, 101.6), "b": every(0.3, 2, 101.6), "c": every(0.3, 2, 90.8)}
    died = began(state(1, 1, [A, B, C], often), state(102, 2, [A, B]))
    assert died.likely_ms == often["c"].last_ms + 10_000
    seldom = {"a": every(5, 2, 97), "b": every(5, 2, 97), "c": every(5, 2, 87)}
    died = began(state(1, 1, [A, B, C], seldom), state(101, 2, [A, B]))
    assert died.likely_ms > seldom["c"].last_ms + 10_500


def test_members_started_together_join_together() -> None:
    """The second member joins a new group before the first one has sent a heartbeat."""
    formed = began(state(0, 0), state(0.5, 1, [A]), state(3.5, 2, [A, B]))
    assert (formed.earliest_ms, formed.likely_ms) == (500, 800)


def test_a_late_leader_delays_the_group() -> None:
    rare = {"a": every(60, 60, 540), "b": every(60, 60, 540)}
    before, after = state(0, 1, [A, B], rare), state(595, 2, [A, B, C])
    quick, slow = (began(before, after._replace(joined_ms=after.at_ms - ms)) for ms in (5, 1_500))
    assert slow.earliest_ms <= quick.earliest_ms - 2 * 1_495


def test_a_subscription_change_that_waits_for_a_dead_member_is_dated() -> None:
    """A change of subscription begins a rebalance by itself. It waits for the dead member's session, so nobody knows
    how long it took.
    """
    before = state(0, 1, [A, B], {"a": every(1, 2, 58), "b": every(1, 2, 50)})
    found = last(before, state(62, 2, [A._replace(topics=99)]))
    assert (found.verdict.cause, found.verdict.trigger and found.verdict.trigger.client_id) == (
        "subscription_changed",
        "a",
    )
    assert found.start is not None
    assert found.start.earliest_ms + 1_000 < found.start.likely_ms < found.start.latest_ms - 1_000


def test_simultaneous_leaves_without_commits_are_dated_loosely() -> None:
    """Nothing shows these leaves: the members commit nothing."""
    left = began(state(1, 1, [A, B]), state(8, 2))
    assert (left.earliest_ms, left.likely_ms, left.latest_ms) == (1_000, 7_995, 7_995)


def test_a_slow_poller_is_removed_when_its_poll_interval_is_over() -> None:
    slow = B._replace(rebalance_timeout_ms=30_000)
    put_out = began(state(1, 1, [A, slow], {"a": every(1, 2, 131), "b": every(1, 2, 100)}), state(132, 2, [A]))
    assert put_out.earliest_ms < 130_000 < put_out.likely_ms < 131_000


def test_a_rebalance_that_waits_for_a_dead_member_began_with_its_replacement() -> None:
    before = state(0, 1, [A, B], {"a": every(5, 5, 50), "b": every(5, 5, 50)})
    waited = began(before, state(61, 2, [A, C]))
    assert waited.earliest_ms >= 40_000
    assert waited.likely_ms < 61_000 - 3_000


def test_members_that_expired_in_an_outage_are_dated() -> None:
    """All were silent for 15 s, and one continues: the other one's session of 10 s was over when the coordinator was
    back.
    """
    resumed = every(1, 2, 116)._replace(max_gap_ms=15_000)
    busy = {"a": resumed, "b": every(1, 2, 100)}
    found = last(state(1, 1, [A, B], busy), state(117, 2, [A]))
    assert (found.verdict.cause, found.verdict.gone[0].how) == ("session_expired", "expired")
    assert found.start is not None
    assert found.start.earliest_ms >= 113_000  # not at 110 s
    # a third member joins meanwhile: it has not begun the rebalance
    found = last(state(1, 1, [A, B], busy), state(117, 2, [A, C]))
    assert found.verdict.cause == "session_expired"


def test_the_start_of_the_first_record_is_unknown() -> None:
    assert last(state(1, 57, [A])).start is None


@pytest.mark.parametrize("seed", range(400))
def test_the_likely_start_is_within_its_bounds_for_any_log(seed: int) -> None:
    """The log may have records of brokers whose clocks differ, sessions of 0 ms, and commits after the next record."""
    chance = random.Random(seed)
    states, at_ms, generation = [], 0, 0
    for _ in range(chance.randrange(2, 12)):
        generation += chance.choice((1, 1, 1, 2, 0, 5))
        at_ms += chance.choice((0, 1, 50, 3_000, 60_000, 10**7))
        members = [
            one._replace(
                session_timeout_ms=chance.choice((0, 6_000, 45_000)),
                rebalance_timeout_ms=chance.choice((0, 6_000, 300_000)),
                topics=chance.choice((None, 1, 2)),
                owned=chance.randrange(3),
                assigned=chance.randrange(3),
            )
            for one in (A, B, C)
            if chance.random() < 0.6
        ]
        activity = {}
        for one in members:
            first_ms = at_ms + chance.randrange(20_000)
            gaps = (chance.choice((None, 0, 1, 500, 20_000)) for _ in range(3))
            activity[one.member_id] = Activity(2, first_ms, first_ms + chance.randrange(20_000), *gaps)
        kind = {"protocol": chance.choice(("range", "cooperative-sticky")), "activity": activity}
        one = state(at_ms / 1_000, generation, members)
        states.append(one._replace(joined_ms=at_ms - chance.choice((0, 5, 9_000)), **kind))
    for found in rebalances(states):
        if found.start is not None:
            assert found.start.earliest_ms <= found.start.likely_ms <= found.start.latest_ms <= found.after.joined_ms
