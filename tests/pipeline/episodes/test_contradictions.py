"""Claims that a fact contradicts are not made. Each contradiction has an example."""

from __future__ import annotations

from muster.pipeline.episodes import claims, model
from muster.pipeline.episodes.claims import Claim, Facts, Last, Stall
from muster.pipeline.episodes.contradictions import CONTRADICTIONS, contradicted_by, made
from muster.pipeline.episodes.share_facts import Delivery, Shares, ShareStep
from muster.pipeline.episodes.verdict import claim_about, verdict
from tests.pipeline.episodes.test_trend import steps
from tests.pipeline.episodes.timeline import HOUR_S, Group, ms


def stall(partition: int, from_s: float, until_s: float | None) -> Stall:
    return Stall("orders", partition, ms(from_s), None if until_s is None else ms(until_s), 90, "STOP", 5, "a")


def in_turn() -> Facts:
    """Each of four partitions is read again after 30 s, while the group reads on."""
    stalled = [stall(at % 4, 35 * at, 35 * at + 30) for at in range(16)] + [stall(0, 560, None)]
    return Facts(ms(600), ms(0), stalled=stalled, progress=steps(44, 60))


def busy(lag: int = 540) -> Facts:
    """The owner of a partition only reads another one, and has `lag` unread records there."""
    last = [Last("orders", 0, ms(200), 1_250, "a"), Last("orders", 1, ms(590), lag, "a")]
    return Facts(ms(600), ms(0), stalled=[stall(0, 205, None)._replace(lag=1_250)], lags=last)


def lost_and_back() -> tuple[Group, Facts]:
    group = Group("a", "b").dies(1_000, "a").comes(2_500, "a")
    return group, Facts(ms(HOUR_S), ms(0), group.stays, group.rebalances)


def stopped(**more: object) -> Facts:
    group = Group("a", "b").leaves(100, "a", "b")
    return Facts(ms(600), ms(0), group.stays, group.rebalances, **more)


def gave_back() -> Facts:
    """Records of a partition are available again at the moments at which members leave."""
    group = Group("a", "b", "c").leaves(100, "a").leaves(200, "b")
    ends = [ms(100), ms(201), ms(300)]
    delivery = Delivery("orders", 0, "accepted", 2, 9, 5, ms(100), ms(300), 3, 2_000, ends)
    return Facts(ms(600), ms(0), group.stays, group.rebalances, shares=Shares([delivery]))


STOPPED = Claim(claims.STOPPED, "stopped", (), ms(100), ms(102))
TOO_SLOW = Claim(claims.TOO_SLOW, "falls behind", (), ms(15), ms(600))
EXAMPLES = {
    "reads_in_turn": (Claim(claims.STALLED, "", ("orders-0", "orders-1", "orders-2", "orders-3"), ms(0), ms(600)),
                      in_turn()),
    "owner_is_behind": (Claim(claims.STALLED, "", ("orders-0",), ms(0), ms(600)), busy()),
    "silent_cluster": (Claim(model.DIED, "", ("a",), ms(100), ms(200)), Facts(ms(600), silences=[(ms(95), ms(205))])),
    "came_back": (Claim(model.DIED, "", ("a",), ms(1_000), ms(1_002), missing=1), lost_and_back()[1]),
    "commits_go_on": (STOPPED, stopped(progress=steps(44, 60))),
    "deleted": (STOPPED, stopped(deleted_ms=ms(300))),
    "reads_nothing": (TOO_SLOW, Facts(ms(600), progress=steps(0, 60))),
    "stands_still": (TOO_SLOW, Facts(ms(600), progress=steps(44, 60), stalled=[stall(0, 205, None)], lags=[
        Last("orders", 0, ms(590), 9_000, "a"), Last("orders", 1, ms(590), 8_000, "a")])),
    "most_fail": (Claim(claims.POISON, "", ("orders-0",), ms(100), ms(200)),
                  Facts(ms(600), shares=Shares(steps=[ShareStep(ms(60), ms(240), 2, 3)]))),
    "members_ended": (Claim(claims.LOCK_TOO_SHORT, "", ("orders-0",), ms(100), ms(300)), gave_back()),
    "given_back": (
        Claim(claims.LOCK_TOO_SHORT, "", ("orders-0",), ms(100), ms(300)),
        Facts(ms(600), shares=Shares([gave_back().shares.deliveries[0]._replace(locks_over=0)])),
    ),
    "caught_up": (TOO_SLOW, Facts(ms(600), progress=steps(60, 44, lag=90_000))),
}  # fmt: skip
"""For each contradiction: a claim, and facts that contradict it."""


def test_each_contradiction_has_an_example() -> None:
    assert list(EXAMPLES) == [one.name for one in CONTRADICTIONS]
    for name, (claim, known) in EXAMPLES.items():
        found = contradicted_by(claim, known)
        assert found is not None
        assert found.name == name
        assert found.why
        assert made([claim], known) == []
        weaker = Claim(claims.FINE, "fine")
        assert made([claim._replace(weaker=weaker)], known) == [weaker]


def test_without_the_fact_each_claim_is_made() -> None:
    usual = steps(44, 60)
    for name, (claim, known) in EXAMPLES.items():
        without = known._replace(
            stalled=[stall(3, 100, 500)], silences=(), stays=(), deleted_ms=None, lags=(),
            shares=Shares([one._replace(locks_over=None) for one in known.shares.deliveries]),
            progress=usual if claim.rule == claims.TOO_SLOW else (),
        )  # fmt: skip
        assert made([claim], without) == [claim], name


def test_a_group_that_is_only_too_slow_does_not_stand_still() -> None:
    group = Group("a", "b", "c")
    found = verdict(group.episodes(), in_turn()._replace(stays=group.stays, rebalances=group.rebalances))
    assert found.kind == claims.TOO_SLOW
    assert [one.rule for one in found.claims] == [claims.TOO_SLOW]
    assert found.trouble_ms == 0


def test_one_partition_that_stands_still_is_reported_though_the_others_are_read() -> None:
    known = in_turn()._replace(stalled=[stall(1, 60, 590), stall(0, 20, 45), stall(0, 200, 225)])
    assert verdict(Group("a").episodes(), known).claims[-1].rule == claims.STALLED


def test_an_owner_that_has_read_all_of_its_other_partitions_fails_at_one() -> None:
    assert verdict(Group("a").episodes(), busy(3)).kind == claims.STALLED
    assert verdict(Group("a").episodes(), busy()).level == "fine"


def test_a_member_that_came_back_much_later_is_not_missing() -> None:
    group, known = lost_and_back()
    found = claim_about(next(one for one in group.episodes() if one.kind == model.DIED), known)
    assert found.text.startswith("a was lost and came back later: 1 rebalance")
    assert found.missing == 0


def test_what_happened_while_nobody_committed_is_no_loss_of_a_member() -> None:
    group = Group("a", "b").dies(1_000, "a")
    known = Facts(ms(HOUR_S), ms(0), group.stays, group.rebalances, silences=[(ms(950), ms(1_100))])
    found = verdict(group.episodes(), known)
    assert found.text.startswith("a rebalanced while no group committed (perhaps coordinator or network)")
    assert found.kind == model.TROUBLE


def test_a_member_that_was_lost_just_before_a_silence_was_lost() -> None:
    group = Group("a", "b").dies(1_000, "a")
    known = Facts(ms(HOUR_S), ms(0), group.stays, group.rebalances, silences=[(ms(1_003), ms(1_100))])
    assert verdict(group.episodes(), known).text.startswith("a was lost and nobody took its place")


def test_members_that_a_silence_removed_and_that_are_back_are_no_trouble_of_the_group() -> None:
    group = Group("a", "b").dies(1_000, "a").comes(1_020, "a").is_lost_with_others(980)
    known = Facts(ms(HOUR_S), ms(0), group.stays, group.rebalances, silences=[(ms(860), ms(990))])
    found = verdict(group.episodes(), known)
    assert (found.level, found.text, found.trouble_ms) == ("fine", "fine", 0)
    assert found.claims[-1].rule == model.TROUBLE
    gone = Group("a", "b").dies(1_000, "a").is_lost_with_others(980)
    missing = known._replace(stays=gone.stays, rebalances=gone.rebalances)
    assert verdict(gone.episodes(), missing).level == "look"
    assert verdict(group.episodes(), known._replace(silences=())).level == "look"
