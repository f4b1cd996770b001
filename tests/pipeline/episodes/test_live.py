"""Claims that only the present state of groups shows: a storm over several groups; the flapping score."""

from __future__ import annotations

from muster.pipeline.episodes.live import Rebalancing, rebalance_claim, storm_claim
from muster.pipeline.episodes.moments import Heard, Losses
from muster.pipeline.episodes.score import flapping_score
from muster.pipeline.episodes.thresholds import AROUND_MS, MINUTE, STUCK_MS
from muster.pipeline.episodes.when import When
from tests.pipeline.episodes.timeline import START_MS


def test_members_of_many_groups_that_are_lost_at_once_are_one_storm() -> None:
    lost = {f"g{number}": [START_MS + 100 * number] for number in range(4)}
    losses = Losses()
    for some in lost.values():
        losses.add([Heard(ms, 0, ms + 1) for ms in some])
    claim = storm_claim(lost, losses.found(), When(START_MS + MINUTE))
    assert claim is not None
    assert claim.text.startswith("4 members of 4 groups were lost at the same moment at 15:06: perhaps coordinator")
    assert [one.text for one in claim.evidence][:1] == ["g0 lost 1 member"]
    assert storm_claim(lost, losses.found(), When(START_MS + 2 * AROUND_MS)) is None
    few = Losses()
    few.add([Heard(ms, 0, ms + 1) for ms in lost["g0"]])
    assert storm_claim(lost, few.found(), When(START_MS + MINUTE)) is None


def test_a_rebalance_that_nobody_holds_up_is_stuck_and_a_member_alone_keeps_nobody_waiting() -> None:
    when = When(START_MS + STUCK_MS)
    claim = rebalance_claim(Rebalancing("Assigning", START_MS, 5, []), when)
    assert claim is not None
    assert (claim.rule, claim.text) == ("stuck", "stuck in Assigning since 15:06")
    alone = rebalance_claim(Rebalancing("CompletingRebalance", START_MS, 1, [("a", "is to sync")]), when)
    assert alone is not None
    assert alone.text == "stuck in CompletingRebalance since 15:06: a has something left to do"
    many = [(f"m{number}", "is to sync") for number in range(7)]
    claim = rebalance_claim(Rebalancing("CompletingRebalance", START_MS, 9, many), when)
    assert claim is not None
    assert "m0, m1 and 5 more have something left to do" in claim.text


def test_the_flapping_score_is_that_of_the_table() -> None:
    # the values of docs/pipeline-tables.md's formula
    assert flapping_score(0, 1.0, 0, 0, 0) == 0.0
    assert flapping_score(12, 2.0, 6, 12, 1) == round(100 * 6 / 12 * (0.4 + 0.3 * 0.5 + 0.3 * 1), 1)
    assert flapping_score(3, 0.5, 9, 1, 1) == round(100 * 3 / 9 * 0.7, 1)
