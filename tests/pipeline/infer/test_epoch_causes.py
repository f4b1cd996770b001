from __future__ import annotations

from collections.abc import Mapping

import pytest

from muster.pipeline.defaults import EPOCH_SESSION_MS
from muster.pipeline.infer.epoch_causes import Epoch, Raised, raised
from muster.pipeline.infer.epoch_image import Change, State
from muster.pipeline.infer.epochs import fold
from muster.pipeline.infer.evidence import Activity
from muster.pipeline.tables.inferred_rebalances import epoch_row
from tests.pipeline.infer.epoch_model import Server

COMMITS_MS = 1_000


def judged(server: Server, activity: Mapping[str, tuple[int, int]] | None = None) -> list[Raised]:
    """The inferred causes. `activity`: from when to when each member committed, once a second."""
    epochs = []
    states = [one for one in fold(server.records, server.names) if isinstance(one, State)]
    begins = [one.began_ms for one in states]
    for one, end_ms in zip(states, [*begins[1:], None], strict=True):
        if one.epoch is None:
            epochs.append(None)
            continue
        of_members = {
            name: every(max(first, one.began_ms), last if end_ms is None else min(last, end_ms))
            for name, (first, last) in (activity or {}).items()
            if first < (end_ms or last) and last > one.began_ms
        }
        epochs.append(Epoch(one.epoch, one.began_ms, one.at_ms, one.members, one.change, of_members))
    return list(raised(epochs))


def every(first_ms: int, last_ms: int) -> Activity:
    return Activity((last_ms - first_ms) // COMMITS_MS + 1, first_ms, last_ms, COMMITS_MS, COMMITS_MS, COMMITS_MS)


def summarized(found: list[Raised]) -> list[tuple[int, str | None, str | None]]:
    return [(one.epoch.number, one.cause, one.trigger and one.trigger.client_id) for one in found]


def two() -> Server:
    server = Server({"t": 4, "u": 2})
    server.join(0, "a1")
    server.join(1_000, "b1")
    server.settle(1_100)
    return server


def test_joins_and_subscription_changes_are_found_in_the_records() -> None:
    server = two()
    server.subscribe(100_000, "b1", "t", "u")
    server.settle(100_100)
    server.grow(200_000, "u", 4)
    server.settle(200_100)
    found = judged(server)
    assert summarized(found) == [
        (2, "member_joined", "a"), (3, "member_joined", "b"), (4, "subscription_changed", "b"),
        (5, "partitions_changed", None),
    ]  # fmt: skip
    assert min(one.certainty for one in found) >= 0.95
    assert [one.ended for one in found] == [()] * 4


def test_a_recently_active_member_has_left() -> None:
    server = two()
    server.leave(300_000, "b1")
    last = judged(server, {"a1": (2_000, 400_000), "b1": (2_000, 299_500)})[-1]
    assert (last.cause, last.trigger and last.trigger.client_id) == ("member_left", "b")
    assert last.certainty > 0.9
    assert [tuple(one) for one in last.ended] == [("b1", "left", 300_000)]


def test_a_member_that_was_silent_for_a_session_has_expired() -> None:
    server = two()
    server.leave(300_000, "b1")
    last = judged(server, {"a1": (2_000, 400_000), "b1": (2_000, 300_000 - EPOCH_SESSION_MS)})[-1]
    assert last.cause == "session_expired"
    assert last.certainty > 0.8
    assert [tuple(one) for one in last.ended] == [("b1", "expired", 300_000)]
    # its last heartbeat may have been so much earlier than its last commit
    early = judged(server, {"a1": (2_000, 400_000), "b1": (2_000, 300_000 - EPOCH_SESSION_MS + 4_000)})[-1]
    assert early.cause == "session_expired"


def test_causes_without_commits_are_uncertain() -> None:
    server = two()
    server.leave(300_000, "b1")
    assert judged(server)[-1].certainty <= 0.6


def test_a_record_of_a_member_shows_that_it_is_alive() -> None:
    server = two()
    server.grow(290_000, "t", 8)
    server.settle(290_100)
    server.leave(300_000, "b1")
    # its session timeout may have been that short
    assert (judged(server)[-1].cause, judged(server)[-1].certainty) == ("member_left", 0.6)


def test_an_expired_static_member_shows_the_session_timeout() -> None:
    server = two()
    server.join(2_000, "s1", instance="i")
    server.settle(2_100)
    server.stop(100_000, "s1")
    server.leave(109_980, "s1")
    server.settle(110_000)
    server.leave(300_000, "b1")
    found = judged(server, {"a1": (3_000, 400_000), "b1": (3_000, 289_500)})
    assert summarized(found)[-2:] == [(5, "session_expired", "s"), (6, "session_expired", "b")]
    assert found[-2].certainty == 0.97


def test_a_static_member_that_comes_back_is_replaced() -> None:
    server = Server({"t": 2})
    server.join(0, "s1", instance="i")
    server.stop(1_000, "s1")
    server.back(2_000, "s1", "s2")
    server.join(3_000, "a1")
    found = judged(server)
    assert summarized(found) == [(2, "member_joined", "s"), (3, "member_joined", "a")]
    assert [tuple(one) for one in found[1].ended] == [("s1", "replaced", 2_000)]
    assert (found[1].change.joined, found[1].change.gone) == (("a1",), ())


def test_a_member_that_does_not_revoke_in_time_is_removed() -> None:
    server = Server({"t": 4})
    server.join(0, "a1", rebalanceTimeoutMs=9_000)
    server.join(1_000, "b1")
    server.beat(2_000, "a1")
    server.leave(11_001, "a1")
    last = judged(server)[-1]
    assert (last.cause, last.trigger and last.trigger.client_id) == ("revocation_timeout", "a")
    assert [tuple(one) for one in last.ended] == [("a1", "removed", 11_001)]


def test_causes_before_the_log_are_unknown() -> None:
    server = two()
    server.join(10_000, "c1")
    records = [one for one in server.records if one.at_ms >= 1_000]
    states = [one for one in fold(records, server.names) if isinstance(one, State)]
    epochs = [Epoch(one.epoch or 0, one.began_ms, one.at_ms, one.members, one.change, {}) for one in states]
    found = list(raised(epochs))
    assert summarized(found) == [(3, None, None), (4, "member_joined", "c")]
    assert found[0].certainty == 0.2


def test_an_epoch_without_members_has_lost_one_whose_records_are_gone() -> None:
    change = Change(4, 0, topics_changed=True)
    (found,) = raised([Epoch(5, 1_000, 1_000, (), change, {})])
    assert (found.cause, found.trigger, found.certainty) == ("member_left", None, 0.5)


def test_missing_epochs_lower_the_certainty() -> None:
    server = two()
    server.epoch += 2
    server.join(10_000, "c1")
    last = judged(server)[-1]
    assert (last.cause, last.certainty) == ("member_joined", 0.99 * 0.85)


def test_a_conversion_and_the_end_of_a_group_make_no_epoch() -> None:
    server = Server({"t": 2}, first=8)
    server.upgrade(0, "a1", "b1")
    server.join(0, "c1")
    for name in ("a1", "b1", "c1"):
        server.leave(10_000, name)
    server.delete(20_000)
    server.join(30_000, "d1")
    assert [one[0] for one in summarized(judged(server))] == [8, 9, 10, 11, 2]


def test_a_dead_member_has_the_time_of_its_last_heartbeat() -> None:
    """The last heartbeat of a dead member came a session before its end, however long before that it had nothing to
    commit.
    """
    server = two()
    server.leave(300_000, "b1")
    busy = {"a1": (2_000, 400_000), "b1": (2_000, 254_500)}
    row = epoch_row("g", judged(server, busy)[-1])
    assert [(one["client_id"], one["last_ms"], one["end_ms"]) for one in row["died"]] == [("b", 255_000, 300_000)]
    assert (row["silent_from_ms"], row["silent_partition_ms"]) == (255_000, 2 * 45_000)
    assert (row["came"], row["went"]) == ([], [])


def test_an_absent_static_member_is_missing_since_it_stopped() -> None:
    server = two()
    server.join(2_000, "s1", instance="i")
    server.settle(2_100)
    server.stop(100_000, "s1")
    server.leave(145_000, "s1")
    row = epoch_row("g", judged(server, {"a1": (3_000, 400_000)})[-1])
    assert [(one["instance_id"], one["last_ms"]) for one in row["died"]] == [("i", 100_000)]


def test_members_that_joined_and_left_are_named() -> None:
    server = two()
    server.leave(300_000, "b1")
    server.settle(300_100)
    came, left = map(epoch_row, "gg", judged(server, {"a1": (2_000, 400_000), "b1": (2_000, 299_500)})[-2:])
    assert (came["came"], came["went"], came["died"]) == (["b"], [], [])
    assert (left["came"], left["went"], left["died"]) == ([], ["b"], [])


def test_a_member_silent_among_active_ones_expired_also_in_a_short_session() -> None:
    """Sessions may be shorter than 45 s. A member that commits every second commits also when it leaves."""
    server = two()
    server.leave(300_000, "b1")
    last = judged(server, {"a1": (2_000, 400_000), "b1": (2_000, 289_500)})[-1]
    assert (last.cause, last.trigger and last.trigger.client_id) == ("session_expired", "b")
    assert 0.6 < last.certainty < 0.95


def test_silence_of_all_members_is_no_expiration() -> None:
    server = two()
    server.leave(300_000, "b1")
    last = judged(server, {"a1": (2_000, 290_000), "b1": (2_000, 289_500)})[-1]
    assert last.cause == "member_left"


def test_a_member_that_is_silent_only_after_the_coordinators_absence_has_expired() -> None:
    """For two minutes nobody commits. After that, both commit once, and one of them is silent for 8 s."""
    server = two()
    server.leave(300_000, "b1")
    away = every(2_000, 299_000)._replace(gap_ms=3_300, max_gap_ms=120_000)
    states = [one for one in fold(server.records, server.names) if isinstance(one, State)]
    back = Activity(60, 2_000, 292_000, 3_300, 124_000, 124_000)
    activity = {"a1": away, "b1": back}
    epochs = [
        Epoch(one.epoch or 0, one.began_ms, one.at_ms, one.members, one.change, activity if at == 1 else {})
        for at, one in enumerate(states)
    ]
    assert list(raised(epochs))[-1].cause == "session_expired"


@pytest.mark.parametrize(("after_ms", "cause"), [(5, "session_expired"), (900, "member_left")])
def test_a_member_that_goes_without_the_usual_commit_has_expired(after_ms: int, cause: str) -> None:
    """Members commit rarely. When one is to give partitions up, it commits just then, or it does not."""
    server = two()
    server.leave(30_000, "b1")
    states = [one for one in fold(server.records, server.names) if isinstance(one, State)]
    gave_up_ms = [one.at_ms - one.paused_ms for each in states for one in each.takes if one.paused_ms is not None]
    assert gave_up_ms
    activity = {"a1": Activity(2, gave_up_ms[0] + after_ms, 20_000, None, None, None)}
    epochs = [
        Epoch(one.epoch or 0, one.began_ms, one.at_ms, one.members, one.change, activity if one.epoch == 3 else {},
              tuple(gave_up_ms) if one.epoch == 3 else ())
        for one in states
    ]  # fmt: skip
    assert list(raised(epochs))[-1].cause == cause


def test_a_member_that_did_not_poll_in_time_has_left() -> None:
    server = Server({"t": 4})
    server.join(0, "a1")
    server.join(1_000, "b1", rebalanceTimeoutMs=10_000)
    server.settle(1_100)
    server.leave(300_000, "b1")
    last = judged(server, {"a1": (2_000, 400_000), "b1": (2_000, 289_500)})[-1]
    assert last.cause == "member_left"


def test_a_static_member_without_a_leave_has_expired() -> None:
    server = two()
    server.join(2_000, "s1", instance="i")
    server.settle(2_100)
    server.leave(100_000, "s1")
    last = judged(server, {"a1": (3_000, 400_000), "s1": (3_000, 89_000)})[-1]
    assert (last.cause, last.trigger and last.trigger.instance_id) == ("session_expired", "i")


def test_a_shorter_session_timeout_is_learned() -> None:
    """A death that the other members prove shows the session timeout. A member with nothing to commit lived until
    then.
    """
    server = two()
    server.join(2_000, "s1", instance="i")
    server.settle(2_100)
    server.leave(100_000, "b1")
    server.settle(100_100)
    server.leave(300_000, "s1")
    found = judged(server, {"a1": (3_000, 400_000), "b1": (3_000, 89_500), "s1": (3_000, 200_000)})
    assert [one.cause for one in found[-2:]] == ["session_expired", "session_expired"]
    (gone,) = epoch_row("g", found[-1])["died"]
    assert 300_000 - 12_000 <= gone["last_ms"] <= 300_000 - 9_000


def test_two_members_silent_for_exactly_a_session_died_together() -> None:
    server = two()
    server.join(2_000, "c1")
    server.settle(2_100)
    server.leave(300_000, "b1")
    server.leave(300_900, "a1")
    busy = {"a1": (3_000, 257_500), "b1": (3_000, 257_000)}
    assert [(one.cause, one.trigger and one.trigger.client_id) for one in judged(server, busy)[-2:]] == [
        ("session_expired", "b"), ("session_expired", "a"),
    ]  # fmt: skip


def test_a_member_that_returns_with_its_id_shows_the_session_timeout() -> None:
    """Clients keep their id while they live. A client that stops does not return under its id."""
    server = two()
    server.join(2_000, "c1")
    server.settle(2_100)
    server.leave(60_000, "c1")  # it has nothing to commit, and nothing shows it yet
    server.settle(60_100)
    server.leave(100_000, "b1")
    server.settle(100_100)
    server.join(108_000, "b1")
    server.settle(108_100)
    busy = {"a1": (3_000, 400_000), "b1": (3_000, 94_500), "c1": (3_000, 54_500)}
    found = judged(server, busy)
    assert [one.cause for one in found[-3:]] == ["session_expired", "session_expired", "member_joined"]
    (gone,) = epoch_row("g", found[-2])["died"]
    assert 94_000 <= gone["last_ms"] <= 94_500


def test_a_slow_poller_that_returns_with_its_id_has_left() -> None:
    server = Server({"t": 4})
    server.join(0, "a1")
    server.join(1_000, "b1", rebalanceTimeoutMs=10_000)
    server.settle(1_100)
    server.leave(300_000, "b1")
    server.join(303_000, "b1", rebalanceTimeoutMs=10_000)
    found = judged(server, {"a1": (2_000, 400_000), "b1": (2_000, 289_500)})
    assert [one.cause for one in found[-2:]] == ["member_left", "member_joined"]


def test_session_timeouts_learned_later_apply_to_earlier_departures() -> None:
    """A member with nothing to commit is silent for longer than its session. It cannot be judged before the timeout is
    known.
    """
    server = two()
    server.join(2_000, "s1", instance="i")
    server.settle(2_100)
    server.leave(100_000, "b1")
    server.settle(100_100)
    server.stop(200_000, "s1")
    server.leave(209_990, "s1")
    found = judged(server, {"a1": (3_000, 90_500), "b1": (3_000, 90_000)})
    assert [one.cause for one in found[-2:]] == ["session_expired", "session_expired"]


def test_an_unusually_long_silence_among_active_members_is_an_expiration() -> None:
    server = two()
    server.leave(300_000, "b1")
    irregular = Activity(30, 2_000, 289_000, 6_000, 10_500, 6_000)
    states = [one for one in fold(server.records, server.names) if isinstance(one, State)]
    activity = {"a1": every(2_000, 299_000), "b1": irregular}
    epochs = [
        Epoch(one.epoch or 0, one.began_ms, one.at_ms, one.members, one.change, activity if at == 1 else {})
        for at, one in enumerate(states)
    ]
    last = list(raised(epochs))[-1]
    assert (last.cause, last.certainty) == ("session_expired", 0.7)


@pytest.mark.parametrize(("left_ms", "cause"), [(296_500, "session_expired"), (295_500, "member_left")])
def test_after_few_commits_a_silence_must_be_clearly_longer_than_their_interval(left_ms: int, cause: str) -> None:
    server = two()
    server.leave(left_ms, "b1")
    states = [one for one in fold(server.records, server.names) if isinstance(one, State)]
    activity = {"a1": every(2_000, left_ms - 1_000), "b1": Activity(2, 285_000, 290_000, 5_000, 5_000, 5_000)}
    epochs = [
        Epoch(one.epoch or 0, one.began_ms, one.at_ms, one.members, one.change, activity if at == 1 else {})
        for at, one in enumerate(states)
    ]
    assert list(raised(epochs))[-1].cause == cause
