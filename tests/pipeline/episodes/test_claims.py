"""Each sentence of a verdict is a claim with its rule and the rows that prove it."""

from __future__ import annotations

import re

import pytest

from muster.pipeline.episodes import claims, model
from muster.pipeline.episodes.applications import Application, Together
from muster.pipeline.episodes.claims import (
    CONFIDENCES,
    EVIDENCE,
    OF_COMMITS,
    PERHAPS,
    Back,
    Claim,
    Facts,
    Fall,
    Last,
    Skip,
    Stall,
)  # fmt: skip
from muster.pipeline.episodes.model import EXPIRED, LEFT, Rebalance
from muster.pipeline.episodes.share_facts import Shares
from muster.pipeline.episodes.verdict import claim_about, verdict
from tests.pipeline.episodes.test_share_trouble import delivered, late, partition_of, two
from tests.pipeline.episodes.test_trend import steps
from tests.pipeline.episodes.timeline import Group, ms

RULES = {*model.KINDS, *OF_COMMITS, claims.UNSTABLE, claims.CLOCK, claims.STOPPED, claims.FINE}
MOST_WORDS = 20


def stall(partition: int, from_s: float, until_s: float | None, **more: object) -> Stall:
    until_ms = None if until_s is None else ms(until_s)
    return Stall("orders", partition, ms(from_s), until_ms, 1_200, **more)


def looping() -> Group:
    group = Group("web-1", "web-2")
    for number in range(8):
        group.restarts(1_000 + 120 * number, "web-1", how=EXPIRED)
    return group


def facts(group: Group, end_s: float = 3_500, **more: object) -> Facts:
    return Facts(ms(end_s), ms(0), group.stays, group.rebalances, **more)


EXAMPLES = {
    "fine": (Group("a", "b"), {}),
    "loop": (looping(), {}),
    "lost": (Group("a", "b", "c").dies(1_000, "a").comes(1_300, "a").dies(2_000, "b"), {}),
    "all lost": (Group().comes(0, "a", "b", instance=True).dies(1_000, "a", "b"), {}),
    "with others": (Group("a", "b").dies(1_000, "a").is_lost_with_others(980), {}),
    "stopped": (Group("a", "b").leaves(1_000, "a", "b"), {}),
    "deployed": (Group("a", "b").restarts(1_000, "a").restarts(1_060, "b").comes(2_900, "c"), {}),
    "poison": (Group("a"), {"stalled": [stall(3, 900, None, status="STALL", offset=1_234, owner="web-1")]}),
    "stalled": (Group("a"), {"stalled": [stall(at, 900 + at, None, status="STOP", owner="a") for at in range(9)]}),
    "stalled before": (Group("a"), {"stalled": [stall(at % 2, 500 * at, 500 * at + 90) for at in range(4)]}),
    "too slow": (Group("a", "b", "c"), {"progress": steps(44, 60)}),
    "two": (Group("a"), {"back": [Back("second_application", ms(5), ms(900), 335), Back("zombie", ms(9), ms(9), 1)]}),
    "two topics": (
        Group("a"),
        {
            "together": Together(
                ms(0), ms(900), tuple(Application((topic,), (topic[0],)) for topic in ("orders", "payments"))
            )
        },
    ),
    "skipped": (Group("a"), {"skips": [Skip("orders", at, ms(900 + at), 100, 145) for at in range(3)]}),
    "skipped by a member": (Group("a"), {"skips": [Skip("orders", 1, ms(900), 100, 1_100, "a")]}),
    "poison record": (Group("a"), {"shares": Shares([delivered("dead_letter", at, at_s=900 * at) for at in (3, 5)])}),
    "not done": (Group("a"), {"shares": Shares([delivered("waiting", at, offset=at) for at in (3, 4)])}),
    "most fail": (
        Group("a"),
        {"shares": Shares([delivered("archived", 5)], [partition_of(at, 3, 9) for at in range(2)])},
    ),
    "lock by events": (Group("a"), {"shares": Shares([late()._replace(locks_over=3)])}),
    "lock": (Group("a"), {"shares": Shares([late()])}),
    "stuck": (Group("a"), {"shares": two(60)}),
    "starved": (Group("a"), {"shares": two(None)}),
    "clock": (Group("a"), {"fall": Fall(ms(900), 3_480_000)}),
    "unstable": (Group("a", "b"), {"score": 80.0}),
}
for number in range(12):
    EXAMPLES["unstable"][0].rebalances_for(1_000 + 60 * number, "leader_rejoined")


@pytest.mark.parametrize("name", EXAMPLES)
def test_each_claim_names_its_rule_and_the_rows_that_prove_it(name: str) -> None:
    group, more = EXAMPLES[name]
    known = facts(group, **more)
    judged = verdict(group.episodes(), known)
    about = [claim_about(one, known) for one in group.episodes()]
    assert judged.claims
    for claim in (*judged.claims, *about):
        assert claim.rule in RULES
        assert claim.confidence in CONFIDENCES
        assert words(claim.text) <= MOST_WORDS, claim.text
        assert ("perhaps" in claim.text) == (claim.confidence == PERHAPS) or claim.rule == model.OTHER
        assert claim.evidence or claim.rule in (claims.CLOCK, claims.FINE)
        assert len(claim.evidence) == min(claim.rows, EVIDENCE)
        assert all(is_row(one, known) for one in claim.evidence)
    assert judged.text.split("; ")[0] == judged.claims[0].text.split("; ")[0]


def words(text: str) -> int:
    """The number of words of the longest sentence. A duration is one word."""
    plain = re.sub(r"[\d,.]+ (?:ms|s|min|h|d)\b(?: \d+ (?:s|min|h)\b)*", "duration", text)
    return max(len(sentence.split()) for sentence in plain.split(". "))


def is_row(one: claims.Evidence, known: Facts) -> bool:
    """Is there such a row in the tables?"""
    times = {
        "rebalances": [row.end_ms for row in known.rebalances],
        "memberships": [row.end_ms for row in known.stays],
        "stalls": [row.from_ms for row in known.stalled],
        "regressions": [row.from_ms for row in known.back],
        "progress": [row.start_ms for row in known.progress],
        "deliveries": [row.from_ms for row in known.shares.deliveries],
        "ownership": [row.from_ms for row in known.shares.holds],
        "generations": [] if known.together is None else [known.together.from_ms],
        "skips": [row.at_ms for row in known.skips],
    }
    return one.at_ms in times[one.table] and bool(one.text)


def claim_of(name: str) -> Claim:
    group, more = EXAMPLES[name]
    return verdict(group.episodes(), facts(group, **more)).claims[0]


def test_a_partition_that_fails_at_one_record_is_named_with_owner_and_offset() -> None:
    found = claim_of("poison")
    assert found.text == (
        "web-1 commits offset 1,234 of orders-3 again and again since 15:21:40, 1,200 records behind: perhaps one "
        "record fails"
    )
    assert found.advice == "look at record 1,234 of orders-3, and at the log of web-1"


def test_a_group_is_not_too_slow_if_it_does_not_read_what_is_unread() -> None:
    group, more = EXAMPLES["too slow"]
    given_up = [Last("orders", 0, ms(0), 90_000, "web-1"), Last("orders", 1, ms(600), 5, "web-1")]
    known = facts(group, **more)._replace(lags=given_up)
    assert [one.rule for one in verdict(group.episodes(), known).claims] == ["fine"]


def test_a_group_is_too_slow_also_if_it_has_not_come_to_some_partitions_for_a_while() -> None:
    group, more = EXAMPLES["too slow"]
    last_ms = more["progress"][-1].until_ms
    lags = [Last("t", 0, last_ms - 400_000, 5_000, "a"), Last("t", 1, last_ms, 3_000, "b")]
    found = verdict(group.episodes(), facts(group, **more)._replace(lags=lags)).claims
    assert [one.rule for one in found] == ["too_slow"]


def test_a_group_is_not_too_slow_if_its_members_gave_most_of_the_lag_up_since() -> None:
    group, more = EXAMPLES["too slow"]
    last_ms = more["progress"][-1].until_ms
    given_up = [Last("orders", 0, last_ms - 300_000, 90_000, "a"), Last("payments", 0, last_ms, 5, "a")]
    found = verdict(group.episodes(), facts(group, **more)._replace(lags=given_up)).claims
    assert [one.rule for one in found] == ["fine"]


@pytest.mark.parametrize(("behind_s", "rule"), [(95, "too_slow"), (20, "fine")])
def test_one_slow_member_of_a_group_that_is_hardly_behind_has_old_unread_records(behind_s: int, rule: str) -> None:
    group, more = EXAMPLES["too slow"]
    short = [one._replace(lag=(one.lag or 0) // 9) for one in more["progress"]]
    last_ms = short[-1].until_ms
    lags = [Last("t", 0, last_ms, 900, "b", behind_s * 1_000), Last("t", 1, last_ms, 20, "a", 1_000)]
    found = verdict(group.episodes(), facts(group, progress=short, lags=lags)).claims
    assert [one.rule for one in found] == [rule]


@pytest.mark.parametrize(
    ("names", "text"),
    [(("a", "b"), "stopped at 15:23:22: both members left or were lost"), (("a",), "a left or was lost: 1 rebalance")],
)
def test_a_departure_that_the_log_hardly_shows_is_perhaps_a_loss(names: tuple[str, ...], text: str) -> None:
    group = Group("a", "b").leaves(1_000, *names)
    group.rebalances[-1] = group.rebalances[-1]._replace(confidence=0.55)
    found = verdict(group.episodes(), facts(group)).text if len(names) > 1 else claim_about(
        group.episodes()[1], facts(group)
    ).text  # fmt: skip
    assert found.startswith(text)


def test_a_member_that_perhaps_was_lost_and_came_back_is_worth_a_look() -> None:
    group = Group("a", "b").restarts(1_000, "b")
    assert verdict(group.episodes(), facts(group)).level == "fine"
    group.rebalances[-2] = group.rebalances[-2]._replace(confidence=0.55)
    found = verdict(group.episodes(), facts(group))
    assert found.level == "look"
    assert found.text.startswith("b left or was lost and came back")


def test_a_death_that_the_log_hardly_shows_is_perhaps_a_departure() -> None:
    group = Group("a", "b").dies(1_000, "b")
    group.rebalances[-1] = group.rebalances[-1]._replace(confidence=0.62)
    assert verdict(group.episodes(), facts(group)).text.startswith("b was lost or left and nobody took its place")
    group = Group("a", "b").dies(1_000, "a", "b")
    group.rebalances[-1] = group.rebalances[-1]._replace(confidence=0.62)
    found = verdict(group.episodes(), facts(group))
    assert found.text.startswith("both members were lost or stopped and nobody came back")
    assert found.level == "look"


def test_a_member_that_fails_in_several_partitions_is_named_with_the_first_offset() -> None:
    group, more = EXAMPLES["poison"]
    (one,) = more["stalled"]
    known = facts(group, **more | {"stalled": [one, one._replace(partition=5)]})
    found = verdict(group.episodes(), known).claims[0]
    assert found.text == (
        "web-1 commits offset 1,234 of orders-3 (and 1 more) again and again since 15:21:40: perhaps a record fails"
    )
    assert (found.rule, found.who, found.is_on) == (claims.STALLED, ("orders-3", "orders-5"), True)


def test_several_stalls_are_counted_with_the_longest() -> None:
    found = claim_of("stalled before")
    assert found.text == (
        "orders-0 and orders-1 stood still 4 times, for at most 1 min 30 s, between 15:06:40 and 15:33:10"
    )
    assert (found.advice or "").startswith("look in the log")


def test_after_a_stall_the_owner_is_to_be_looked_at() -> None:
    group, more = EXAMPLES["poison"]
    (one,) = more["stalled"]
    known = facts(group, **more | {"stalled": [one._replace(until_ms=one.from_ms + 300_000)]})
    found = verdict(group.episodes(), known).claims[0]
    assert (found.is_on, found.advice) == (False, "look at record 1,234 of orders-3, and at the log of web-1 then")
    nobody = one._replace(until_ms=one.from_ms + 300_000, owner=None)
    found = verdict(group.episodes(), facts(group, **more | {"stalled": [nobody]})).claims[0]
    assert found.text.startswith("a member committed offset 1,234 of orders-3 again and again")
    assert found.advice == "look at record 1,234 of orders-3, and at the logs of its members then"
    silent = one._replace(until_ms=one.from_ms + 300_000, status="STOP")
    found = verdict(group.episodes(), facts(group, **more | {"stalled": [silent]})).claims[0]
    assert found.advice == "look in the log of web-1 at 15:21:40 why nothing was read"


def test_a_group_that_is_too_slow_is_told_how_many_members_would_keep_up() -> None:
    found = claim_of("too slow")
    assert found.text == "the group falls behind at 16 records/s since 15:06:55: it reads 44 of 60 records/s"
    assert found.advice == "5 members would keep up (now 3)"
    assert found.is_on


def test_the_advice_for_a_crash_loop_is_to_look_at_its_end() -> None:
    assert claim_of("loop").advice == "look why web-1 ends, in its log at 15:37:42; static ids would only hide its end"


def test_changes_that_the_server_made_have_no_member() -> None:
    group = Group("a", "b").rebalances_for(1_000, "partitions_changed")
    assert claim_about(group.episodes()[1], facts(group)).text.startswith("change of partitions: 1 rebalance")


def test_a_deleted_group_has_not_only_stopped() -> None:
    group = Group("a", "b").leaves(1_000, "a", "b")
    found = verdict(group.episodes(), facts(group, deleted_ms=ms(2_000)))
    assert found.text == "deleted or expired at 15:40:00: both members left at 15:23:22"


def test_the_only_member_that_is_too_slow_is_named() -> None:
    group, more = EXAMPLES["too slow"]
    lags = [Last("t", at, ms(590), lag, owner) for at, (lag, owner) in enumerate(((9_000, "b"), (3, "a"), (5, "c")))]
    (found,) = verdict(group.episodes(), facts(group, **more, lags=lags)).claims
    assert (found.who, found.advice) == (("b",), "look why b reads more slowly than the other members")
    assert found.text == "b falls behind at 16 records/s since 15:06:55: the group reads 44 of 60 records/s"


def test_a_member_that_skips_records_by_itself_is_named() -> None:
    found = claim_of("skipped by a member")
    assert (
        found.text == "a perhaps skipped 1,000 records of orders-1 at 15:21:40: it went forward faster than it can read"
    )
    assert (found.confidence, found.who) == (PERHAPS, ("orders-1",))


@pytest.mark.parametrize(("partitions", "is_skip"), [(1, False), (6, True)])
@pytest.mark.parametrize(("how", "back_s"), [(LEFT, 1_103), (EXPIRED, 1_180)])
def test_a_member_may_commit_just_before_it_joins_again_or_as_a_lost_process(
    how: str, back_s: int, partitions: int, is_skip: bool
) -> None:
    """A tool moves the offsets of all partitions."""
    group = Group("a", "b").leaves(1_000, "a", "b", how=how).comes(back_s, "a")
    skips = [Skip("orders", at, ms(1_100), 100, 107) for at in range(partitions)]
    rules = [one.rule for one in verdict(group.episodes(), facts(group, skips=skips)).claims]
    assert (claims.SKIP in rules) == is_skip


@pytest.mark.parametrize(("silent_ms", "is_skip"), [(2_000, True), (300_000, False), (None, False)])
def test_a_process_that_stopped_in_order_commits_no_more(silent_ms: int | None, is_skip: bool) -> None:
    """One that left since it polled too late may commit what it read, just before it joins again."""
    group = Group("a", "b").leaves(1_000, "a", "b", silent_ms=silent_ms, patience_ms=300_000).comes(1_103, "a")
    found = verdict(group.episodes(), facts(group, skips=[Skip("orders", 0, ms(1_100), 100, 160)]))
    assert (claims.SKIP in [one.rule for one in found.claims]) == is_skip


def test_a_group_is_too_slow_before_and_after_a_silence() -> None:
    """Neither part alone is long enough for a trend. The lag of the silence itself shows nothing."""
    group = Group("a", "b", "c")
    every, gap_ms = steps(30, 60), 120_000
    half = len(every) // 2
    later = [one._replace(start_ms=one.start_ms + gap_ms, until_ms=one.until_ms + gap_ms) for one in every[half:]]
    middle_ms, short = every[half].start_ms, [*every[half - 7 : half], *later[:7]]
    short[6] = short[6]._replace(lag=None)  # just before a silence, the ends of topics are not known
    known = facts(group, progress=short, silences=[(middle_ms, middle_ms + gap_ms)])
    (found,) = verdict(group.episodes(), known).claims
    assert (found.rule, found.from_ms, found.until_ms) == ("too_slow", short[0].until_ms, short[-1].until_ms)
    lost = Rebalance(9, 8, middle_ms + gap_ms, middle_ms + gap_ms + 1, "session_expired", None, None, 3, 1)
    less = known._replace(rebalances=[*group.rebalances, lost])
    assert [one.rule for one in verdict(group.episodes(), less).claims] == ["fine"]


def test_a_silence_at_the_beginning_of_the_log_hides_no_trend_across_another_one() -> None:
    """A compacted log begins with old records of the group, and with no commit. Then a member joins again."""
    every, gap_ms = steps(30, 60), 120_000
    half = len(every) // 2
    later = [one._replace(start_ms=one.start_ms + gap_ms, until_ms=one.until_ms + gap_ms) for one in every[half:]]
    middle_ms, short = every[half].start_ms, [*every[half - 4 : half], *later[:5]]
    first_ms = short[0].start_ms
    again = Rebalance(9, 8, first_ms + 49_000, first_ms + 50_000, "member_joined", None, None, 3, 3)
    group = Group("a", "b", "c")
    silences = [(first_ms - 9_000, first_ms + 1), (middle_ms, middle_ms + gap_ms)]
    known = facts(group, progress=short, silences=silences)._replace(rebalances=[*group.rebalances, again])
    assert claims.TOO_SLOW in [one.rule for one in verdict(group.episodes(), known).claims]


def test_rows_that_prove_a_claim_are_in_the_order_of_time() -> None:
    group = Group().comes(0, "a", "b", "c", instance=True)
    for number, name in enumerate("abc"):
        group.is_replaced(1_000 + 10 * number, name)
    known = facts(group)
    (found,) = verdict(group.episodes(), known._replace(stays=group.stays[::-1])).claims
    assert [row.text for row in found.evidence] == ["a: replaced", "b: replaced", "c: replaced"]
