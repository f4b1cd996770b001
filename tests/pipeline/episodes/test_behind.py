"""A group without other trouble that is far behind at the end of the log."""

from __future__ import annotations

import pytest

from muster.pipeline.episodes.claims import BEHIND, Facts, Last, Step
from muster.pipeline.episodes.verdict import Verdict, verdict
from tests.pipeline.episodes.timeline import Group, ms

END_S = 600


def last(partition: int, since_s: float, lag: int = 900, at_s: float = END_S - 5, owner: str = "a") -> Last:
    return Last("orders", partition, ms(at_s), lag, owner, round(1_000 * (END_S - since_s)), ms(since_s))


def steps(*lags: int | None) -> list[Step]:
    """Steps of 15 s up to the end of the log, with 450 written records each. The lag grows by less than a commit."""
    first_s = END_S - 15 * len(lags)
    return [
        Step(ms(first_s + 15 * at), ms(first_s + 15 * at + 15), 5, 430, 450, lag) for at, lag in enumerate(lags)
    ]  # fmt: skip


GROWS = (1_000, 1_100, 1_000, 1_200, 1_300, 1_200, 1_350, 1_400)
OLD = (last(0, END_S - 100), last(1, END_S - 2, 4, owner="b"))


def judged(lags: tuple[Last, ...] = OLD, some: tuple[int | None, ...] = GROWS, **more: object) -> Verdict:
    group = Group("a", "b")
    known = Facts(ms(END_S), ms(0), group.stays, group.rebalances, progress=steps(*some), lags=lags)
    return verdict(group.episodes(), known._replace(**more))


def test_a_group_with_old_unread_records_is_behind() -> None:
    found = judged()
    assert (found.level, found.kind) == ("look", BEHIND)
    assert found.text == "a is behind: 900 records of 1 partition unread at the end, some for 1 min 35 s"
    (claim,) = found.claims
    assert (claim.who, claim.is_on, claim.evidence[0].table) == (("orders-0",), False, "lag")
    assert judged((OLD[0],)).text.startswith("the group is behind: 900 records of 1 partition")


@pytest.mark.parametrize(
    ("lags", "why"),
    [
        ((last(0, END_S - 50), OLD[1]), "the records are new"),
        ((last(0, END_S - 100, at_s=END_S - 80), OLD[1]), "the group commits rarely"),
        ((last(0, END_S - 100), last(1, END_S - 5, 2_000)), "most of the lag is new"),
        ((last(0, END_S - 100, 3), last(1, END_S - 2, 0)), "only a few old records"),
    ],
)
def test_without_old_unread_records_nothing_is_claimed(lags: tuple[Last, ...], why: str) -> None:
    assert judged(lags).level == "fine", why


def test_a_group_that_catches_up_is_not_behind() -> None:
    assert judged(some=tuple(reversed(GROWS))).level == "fine"
    assert judged(some=(None,) * 6 + (1_000, 1_100)).level == "fine"


def test_after_a_silence_a_group_has_time_to_catch_up() -> None:
    assert judged(silences=[(ms(400), ms(560))]).level == "fine"
    assert judged((last(0, 300), OLD[1]), silences=[(ms(290), ms(400))]).level == "look"


@pytest.mark.parametrize(("some", "level"), [(GROWS, "look"), ((*GROWS[:-1], 1_300), "fine")])
def test_members_that_have_just_joined_are_behind_only_if_the_lag_still_grows(
    some: tuple[int, ...], level: str
) -> None:
    group = Group("a").leaves(400, "a").comes(END_S - 20, "a")
    assert judged(some=some, stays=group.stays).level == level


def test_a_stopped_group_is_not_behind() -> None:
    group = Group("a", "b").leaves(END_S - 30, "a", "b")
    assert judged(stays=group.stays).level == "fine"
    assert judged(stays=group.stays, progress=[one._replace(records=100) for one in steps(*GROWS)]).level == "fine"
    assert judged(stays=()).level == "look"
