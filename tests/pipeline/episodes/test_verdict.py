"""The text of verdicts about a group."""

from __future__ import annotations

from pathlib import Path

import pytest

from muster.pipeline.episodes import verdict
from muster.pipeline.episodes.claims import Facts, Last
from muster.pipeline.episodes.model import EXPIRED, KINDS, LEFT
from muster.pipeline.episodes.other_trouble import went_back
from tests.pipeline.episodes.timeline import HOUR_S, Group, ms

DOCS = Path(__file__).parents[3] / "docs" / "pipeline-episodes.md"


def verdict_of(group: Group, end_s: float, score: float | None = None) -> verdict.Verdict:
    facts = Facts(ms(end_s), stays=group.stays, rebalances=group.rebalances, score=score)
    return verdict.verdict(group.episodes(), facts)


def looping(times: int, **how: object) -> Group:
    group = Group("web-1", "web-2")
    for number in range(times):
        group.restarts(1_000 + 120 * number, "web-1", **({"how": EXPIRED} | how))
    return group


def test_a_group_at_rest_is_fine() -> None:
    assert verdict_of(Group("a", "b"), HOUR_S)[:4] == ("fine", "fine", None, 0)


def test_intended_changes_are_no_trouble_but_have_a_cost() -> None:
    group = Group("a", "b").restarts(1_000, "a").restarts(1_060, "b").comes(5_000, "c")
    found = verdict_of(group, 3 * HOUR_S)
    assert found[:4] == (
        "fine",
        "fine: 1 rolling restart, 1 scale-out (5 rebalances, 1 min unread in all)",
        None,
        0,
    )
    stopped = Group("a", "b").leaves(1_000, "a", "b")
    assert verdict_of(stopped, HOUR_S).text == "stopped at 15:23: both members left"


def test_what_to_do_about_lost_members_is_to_look_at_their_ends() -> None:
    lost = Group("a", "b").dies(1_000, "a")
    assert verdict_of(lost, HOUR_S).claims[0].advice == "look in the logs at 15:23 why a was lost, and start it again"
    back = Group("a", "b").dies(1_000, "a").comes(1_020, "a")
    assert verdict_of(back, HOUR_S).claims[0].advice == "look in the logs at 15:23 why a was lost"
    stopped = Group("a", "b").dies(1_000, "a", "b")
    advice = "look in the logs at 15:23 why all members were lost, and start them again"
    assert verdict_of(stopped, HOUR_S).claims[0].advice == advice


def test_the_verdict_is_in_plain_words() -> None:
    group = Group("a", "b").restarts(1_000, "a").rebalances_for(2_000, "subscription_changed", "b")
    sentences = [verdict.describe(one, ms(HOUR_S)) for one in group.episodes()[1:]]
    assert sentences[0].startswith("a left and came back: 2 rebalances")
    assert sentences[1].startswith("b subscribed to other topics, or a pattern found one: 1 rebalance")


def test_the_first_record_of_a_partial_log_is_described_as_such() -> None:
    group = Group("a", "b")
    group.rebalances[0] = group.rebalances[0]._replace(before_generation=None, members_before=None, cause=None)
    (first,) = group.episodes()
    assert verdict.describe(first, ms(HOUR_S)) == "the log begins in the midst of its life at 15:06"
    assert verdict_of(group, HOUR_S).text == "fine: no rebalance since 15:06, when what the log has of it begins"


def test_a_current_loop_needs_help() -> None:
    found = verdict_of(looping(19), 1_000 + 120 * 19)
    assert found.text == "web-1 crash-loops: 38 rebalances, 7 min 36 s unread in all since 15:23"
    assert (found.level, found.kind, found.trouble_ms) == ("help", "crash_loop", 38 * 12_000)


def test_a_past_loop_is_worth_a_look() -> None:
    found = verdict_of(looping(4), 6 * HOUR_S)
    assert (found.level, found.text) == (
        "look", "web-1 crash-looped: 8 rebalances, 1 min 36 s unread in all from 15:23 to 15:29"
    )  # fmt: skip


def test_a_loop_that_stopped_is_described_in_the_past_tense() -> None:
    """The group counts as in need of help for one hour more, but the loop has stopped."""
    found = verdict_of(looping(4), 1_000 + 120 * 4 + 600)
    assert found[:2] == ("help", "web-1 crash-looped: 8 rebalances, 1 min 36 s unread in all from 15:23 to 15:29")
    # the next restart is not overdue
    assert " crash-loops: " in verdict_of(looping(4), 1_000 + 120 * 4 + 60).text


def test_a_member_that_always_leaves_cleanly_may_not_crash() -> None:
    found = verdict_of(looping(4, how=LEFT), 1_000 + 120 * 4)
    assert (found.level, found.kind) == ("help", "crash_loop")
    assert found.text.startswith("web-1 keeps leaving and coming back: 8 rebalances")
    past = verdict_of(looping(4, how=LEFT), 6 * HOUR_S)
    assert past.text.startswith("web-1 kept leaving and coming back: 8 rebalances")
    job = Group("job")
    for number in range(5):
        job.restarts(10 + 25 * number, "job", 16)
    assert verdict_of(job, 140)[:3] == (
        "look", "job left and came back 5 times: 10 rebalances, 2 min unread in all since 15:06", "restart"
    )  # fmt: skip


def test_the_verdict_says_that_static_members_died_or_were_stopped() -> None:
    stopped = Group().comes(0, "a", "b", instance=True).dies(1_000, "a", "b")
    assert verdict_of(stopped, 2_000)[:2] == (
        "look",
        "both static members were lost or stopped and nobody came back: 1 rebalance, 12 s unread in all at 15:23",
    )
    late = Group().comes(0, "a", "b", instance=True).dies(1_000, "a").comes(1_006, "a", instance=True)
    assert verdict_of(late, 2_000).text.startswith("a was away past its session, and back after 6 s: 2 rebalances")
    gone = Group().comes(0, "a", "b", instance=True).dies(1_000, "a")
    found = verdict_of(gone, 2_000)
    assert found.text.startswith("the static member a was lost or stopped and nobody took")


def test_deaths_are_named_together_after_loops() -> None:
    group = Group("a", "b", "c").dies(1_000, "a").comes(1_300, "a").dies(5_000, "b")
    found = verdict_of(group, 5_100)
    assert found.text.startswith("2 members were lost (a and b), 1 not replaced: 3 rebalances")
    assert found.level == "look"
    again = Group("a", "b").dies(1_000, "a").comes(1_300, "a").dies(5_000, "a")
    assert verdict_of(again, 5_100).text.startswith("a was lost 2 times, 1 not replaced: 3 rebalances")
    single = Group("a", "b").dies(1_000, "a").comes(1_300, "a")
    assert verdict_of(single, 1_400).text.startswith("a was lost and was back after 5 min: 2 rebalances")
    both = verdict_of(looping(3).dies(9_000, "web-2"), 9_100).text
    assert both.startswith("web-1 crash-looped")
    assert "; web-2 was lost and nobody" in both


@pytest.mark.parametrize(("silent_s", "how"), [(8.5, " or perhaps polled too late"), (6.2, "")])
def test_a_lost_member_whose_timeouts_are_short_perhaps_polled_too_late(silent_s: float, how: str) -> None:
    times = {"silent_ms": round(1_000 * silent_s), "session_ms": 6_000, "patience_ms": 8_000}
    claim = verdict_of(Group("a", "b").dies(1_000, "a", **times).comes(1_010, "a"), 1_400).claims[0]
    assert claim.text.startswith(f"a was lost{how} and was back after 10 s")
    assert claim.advice is not None
    assert ("polled too late" in claim.advice) == bool(how)
    gone = verdict_of(Group("a", "b").dies(1_000, "a", **times), 1_400)
    assert gone.text.startswith(f"a was lost{how} and nobody took its place")
    both = Group("a", "b", "c").dies(1_000, "a", **times).comes(1_010, "a").dies(1_200, "b", **times).comes(1_210, "b")
    assert verdict_of(both, 1_400).text.startswith(f"2 members were lost{how} (a and b)")


def test_members_that_all_died_need_help_until_one_is_back() -> None:
    group = Group("a", "b").dies(1_000, "a", "b")
    assert verdict_of(group, 2_000)[:2] == (
        "help", "both members were lost and nobody came back: 1 rebalance, 12 s unread in all at 15:23"
    )  # fmt: skip
    assert verdict_of(group.comes(1_900, "a", "b"), 2_000).level == "look"


def test_a_group_is_unstable_by_its_score_if_no_rule_knows_why() -> None:
    group = Group("a", "b")
    for number in range(10):
        group.rebalances_for(1_000 + 60 * number, "leader_rejoined")
    assert verdict_of(group, 2_000, 49.9).level == "fine"
    assert verdict_of(group, 2_000, 50.0)[:2] == (
        "help", "unstable, for no single reason: 10 rebalances, 2 min unread in all from 15:23 to 15:32"
    )  # fmt: skip


def test_rebalances_after_a_silence_do_not_make_a_group_unstable() -> None:
    group = Group("a", "b").is_silent_with_others(1_000, 1_120)
    for number in range(10):
        group.rebalances_for(1_121 + 3 * number, "metadata_changed", "a")
    facts = Facts(ms(HOUR_S), stays=group.stays, rebalances=group.rebalances, score=80.0)
    assert verdict.verdict(group.episodes(), facts._replace(silences=[(ms(1_000), ms(1_120))])).level == "fine"
    assert verdict.verdict(group.episodes(), facts).level == "help"


def test_a_group_that_goes_on_after_a_silence_needs_no_help() -> None:
    """Its member is lost and does not return, but another member reads its partitions."""
    group = Group("a", "b").is_silent_with_others(1_000, 1_120).dies(1_120, "a", session_ms=45_000, silent_ms=121_000)
    facts = Facts(ms(HOUR_S), stays=group.stays, rebalances=group.rebalances, silences=[(ms(1_000), ms(1_120))])
    assert verdict.verdict(group.episodes(), facts).level == "look"
    group.dies(1_121, "b", session_ms=45_000, silent_ms=121_000)
    found = verdict.verdict(group.episodes(), facts._replace(stays=group.stays, rebalances=group.rebalances))
    assert found.level == "help"


def test_intended_changes_do_not_make_a_group_unstable() -> None:
    group = Group("a", "b")
    for number in range(5):
        group.comes(1_000 + 60 * number, "c", "d").leaves(1_030 + 60 * number, "c", "d")
    assert verdict_of(group, 1_330, 60.0)[:2] == (
        "look", "unstable: 5 scale-outs, 5 scale-ins: 10 rebalances, 2 min unread in all since 15:23"
    )  # fmt: skip


def test_times_of_another_day_have_the_day() -> None:
    assert " from 2025-06-15 15:23 to 2025-06-15 15:29" in verdict_of(looping(4), 25 * HOUR_S).text


def test_a_clock_that_went_back_is_mentioned() -> None:
    group = Group("a", "b").comes(4_000, "c").leaves(500, "c")
    fall = went_back(group.rebalances)
    found = verdict.verdict(group.episodes(), Facts(ms(5_000), fall=fall))
    assert found.level == "look"
    assert found.text.endswith("; the broker's clock went back by 58 min at 16:13: times around it may be wrong")
    assert went_back(Group("a", "b").comes(4_000, "c").leaves(4_500, "c").rebalances) is None
    # created again under its name, with the same generations
    again = Group("a", "b").comes(4_000, "c").leaves(4_500, "c")
    again.rebalances += [one._replace(end_ms=one.end_ms + 9_000_000) for one in again.rebalances]
    assert went_back(again.rebalances) is None


def test_the_documentation_has_every_kind() -> None:
    text = DOCS.read_text(encoding="utf-8")
    assert [kind for kind in KINDS if f"`{kind}`" not in text] == []


def test_a_member_that_comes_back_long_after_the_others_was_lost() -> None:
    """Others kept their sessions after the silence, or joined again at once."""
    for lost, level in (("a",), "look"), (("a", "b"), "look"), (("a", "b", "c"), "fine"):
        group = Group("a", "b", "c").is_silent_with_others(1_000, 1_120)
        group.dies(1_130, *lost).is_lost_with_others(1_130)
        early = ("a", "b", "c") if level == "fine" else lost[1:]
        if early:
            group.comes(1_132, *early)
        if level == "look":
            group.comes(1_151, "a")
        facts = Facts(ms(HOUR_S), stays=group.stays, rebalances=group.rebalances, silences=[(ms(1_000), ms(1_120))])
        assert verdict.verdict(group.episodes(), facts).level == level, lost


def test_without_end_offsets_nobody_knows_whether_a_group_is_fine() -> None:
    group = Group("a", "b").restarts(1_000, "a", 10)
    last = [Last("orders", partition, ms(HOUR_S - 5), None, "a") for partition in (0, 1)]
    facts = Facts(ms(HOUR_S), ms(0), group.stays, group.rebalances, lags=last)
    found = verdict.verdict(group.episodes(), facts)
    assert (found.level, found.kind, found.claims[0].rule) == ("unknown", None, "no_end_offsets")
    assert found.text == (
        "not known: no end offsets; otherwise fine: 1 absence of a member (2 rebalances, 24 s unread in all)"
    )
    known = facts._replace(lags=[last[0]._replace(lag=3), last[1]])
    assert verdict.verdict(group.episodes(), known).level == "fine"
