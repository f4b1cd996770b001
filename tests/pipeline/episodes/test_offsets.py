"""What commits say of a group, in its verdict."""

from __future__ import annotations

from muster.pipeline.episodes import verdict
from muster.pipeline.episodes.applications import Application, Together
from muster.pipeline.episodes.claims import Back, Facts, Skip, Stall
from tests.pipeline.episodes.timeline import HOUR_S, Group, ms


def verdict_of(
    stalled: list[Stall] | None = None, back: list[Back] | None = None, group: Group | None = None
) -> verdict.Verdict:
    some = group or Group("a")
    facts = Facts(ms(6 * HOUR_S), stays=some.stays, rebalances=some.rebalances, stalled=stalled or [], back=back or [])
    return verdict.verdict(some.episodes(), facts)


def stands(partition: int, from_s: float, until_s: float | None = None, lag: int | None = None) -> Stall:
    return Stall("orders", partition, ms(from_s), None if until_s is None else ms(until_s), lag)


def test_a_stalled_partition_makes_a_group_need_help() -> None:
    found = verdict_of([stands(3, HOUR_S, lag=1_200)])
    words = "orders-3 stands still since 16:06, 1,200 records behind"
    assert found[:4] == ("help", words, "stalled", 5 * HOUR_S * 1_000)
    several = [stands(number, HOUR_S + number, lag=10) for number in range(2)]
    assert verdict_of(several).text == "orders-0 and orders-1 stand still since 16:06, 20 records behind"
    many = [stands(number, HOUR_S) for number in range(5)]
    assert verdict_of(many).text.startswith("5 partitions (orders-0, orders-1 and others) stand still since")


def test_a_partition_that_continued_makes_a_group_worth_a_look() -> None:
    found = verdict_of([stands(3, HOUR_S, HOUR_S + 600)])
    assert (found.level, found.text) == ("look", "orders-3 stood still from 16:06 to 16:16")
    assert found.trouble_ms == 600_000  # no member read it


def test_a_second_application_is_trouble_but_rewinds_and_resets_are_not() -> None:
    twice = [Back("second_application", ms(HOUR_S), ms(HOUR_S + 900), 335)]
    found = verdict_of(back=twice)
    words = "a second application commits under the same group id (335 commits went back) from 16:06 to 16:21"
    assert (found.level, found.text, found.kind) == ("look", words, "second_application")
    assert verdict_of(back=[Back("second_application", ms(HOUR_S), ms(6 * HOUR_S), 335)]).level == "help"
    assert "(1 commit went back)" in verdict_of(back=[Back("second_application", 0, 0, 1)]).text
    fine = verdict_of(back=[Back("rewind", 0, 0, 1), Back("reset", 0, 0, 1), Back("rewind", 9, 9, 3)])
    assert (fine.level, fine.text) == ("fine", "fine: 1 reset of offsets, 2 rewinds")
    zombies = [Back("zombie", ms(HOUR_S), ms(HOUR_S), 1)] * 2
    assert "a former owner still committed" in verdict_of(back=zombies).text
    assert "(2 times)" in verdict_of(back=zombies).text


def test_two_applications_with_different_topics_and_skipped_records_are_worth_a_look() -> None:
    two = Together(ms(HOUR_S), ms(6 * HOUR_S), (Application(("orders",), ("a",)), Application(("payments",), ("b",))))
    found = _verdict_of_facts(together=two)
    words = "members read different topics, as two applications do: a reads orders and b reads payments since 16:06"
    assert (found.level, found.text, found.kind) == ("look", words, "two_topics")
    assert "different group ids" in (found.claims[0].advice or "")
    skips = [Skip("orders", number, ms(HOUR_S), 100, 145) for number in range(2)]
    words = "no member read 90 records of 2 partitions: while the group was empty, offsets went forward at 16:06"
    assert (_verdict_of_facts(skips=skips).level, _verdict_of_facts(skips=skips).text) == ("look", words)
    # a late commit of the member whose session had just ended
    assert _verdict_of_facts(skips=skips, stays=Group("a").dies(HOUR_S - 1, "a").stays).level == "fine"
    # a member that leaves commits before that
    assert _verdict_of_facts(skips=skips, stays=Group("a").leaves(HOUR_S - 4, "a").stays).level == "look"
    assert _verdict_of_facts(skips=skips, stays=Group("a").leaves(HOUR_S - 0.5, "a").stays).level == "fine"
    # just after a silence, members read what producers had kept
    fast = [one._replace(client="a") for one in skips]
    assert _verdict_of_facts(skips=fast).level == "look"
    assert _verdict_of_facts(skips=fast, silences=[(0, ms(HOUR_S - 5))]).level == "fine"
    # lost members went on, committed late, and joined again at once
    back = Group("a").dies(HOUR_S - 20, "a").comes(HOUR_S, "a")
    rebalances = [one._replace(start_ms=one.end_ms - 500) for one in back.rebalances]
    late = [one._replace(at_ms=ms(HOUR_S) - 501) for one in skips]
    assert _verdict_of_facts(skips=late, stays=back.stays, rebalances=rebalances).level == "fine"
    assert _verdict_of_facts(skips=late, stays=back.stays).level == "look"
    assert "45 records of orders-0:" in _verdict_of_facts(skips=skips[:1]).text


def _verdict_of_facts(**more: object) -> verdict.Verdict:
    some = Group("a")
    known = {"stays": some.stays} | more
    return verdict.verdict(some.episodes(), Facts(ms(6 * HOUR_S), **known))


def test_current_trouble_is_named_before_past_trouble() -> None:
    group = Group("a", "b").dies(1_000, "a").comes(1_100, "a")
    on, over = stands(1, HOUR_S, lag=5), stands(2, HOUR_S, HOUR_S + 600)
    assert verdict_of([on], group=group).text.startswith("orders-1 stands still")
    assert verdict_of([over], group=group).text.startswith("a was lost and was back")
    assert "; orders-2 stood still" in verdict_of([over], group=group).text
    assert (verdict_of([on], group=group).level, verdict_of([over], group=group).level) == ("help", "look")


def test_the_verdict_of_a_group_that_suffered_from_an_outage_names_it() -> None:
    group = Group("a", "b").rebalances_for(1_000, "leader_rejoined", "a").is_lost_with_others(980)
    assert verdict_of(group=group).text.startswith("a rebalanced, perhaps by coordinator or network")
