"""The text of times, numbers and causes."""

from __future__ import annotations

import pytest

from muster.pipeline import wording
from muster.pipeline.report import formatting
from tests.pipeline.report.made import rebalance


@pytest.mark.parametrize(
    ("ms", "text"),
    [
        (None, "–"),
        (0, "0 ms"),
        (350, "350 ms"),
        (3_200, "3.2 s"),
        (45_000, "45 s"),
        (60_000, "1 min"),
        (200_000, "3 min 20 s"),
        (720_000, "12 min"),
        (19_200_000, "5 h 20 min"),
        (273_600_000, "3 d 4 h"),
        (-1_500, "-1.5 s"),
    ],
)
def test_durations_are_formatted(ms: int | None, text: str) -> None:
    assert wording.duration(ms) == text


@pytest.mark.parametrize(
    ("ms", "text"),
    [
        (None, "–"),
        (0, "0 s"),
        (9_600, "9.6 s"),
        (3_372_400, "56 min 12 s"),
        (3_600_000, "1 h"),
        (19_207_000, "5 h 20 min 7 s"),
        (273_601_000, "3 d 4 h 1 s"),
    ],
)
def test_costs_are_shown_to_the_second(ms: int | None, text: str) -> None:
    assert wording.to_the_second(ms) == text


@pytest.mark.parametrize(
    ("value", "text"), [(None, "–"), (0, "0"), (1_234_567, "1,234,567"), (0.25, "0.2"), (3.0, "3"), (42.5, "42")]
)
def test_numbers_are_formatted(value: float | None, text: str) -> None:
    assert wording.number(value) == text


def test_shares_and_counts_are_formatted() -> None:
    assert [formatting.percent(one) for one in (None, 0.5, 0.667, 1)] == ["–", "50 %", "66.7 %", "100 %"]
    assert [wording.plural(count, "group") for count in (0, 1, 2_000)] == ["0 groups", "1 group", "2,000 groups"]


def test_moments_are_utc_and_impossible_ones_stay_numbers() -> None:
    assert wording.moment(1_750_000_000_000) == "2025-06-15 15:06:40"
    assert wording.moment(1_750_000_000_000, day=False, seconds=False) == "15:06"
    assert wording.moment(None) == "–"
    assert wording.moment(2**62) == f"{2**62} ms"


def test_a_cause_is_shown_with_its_member_and_reason() -> None:
    assert formatting.why(rebalance(2, 8, "session_expired")) == (
        "payments-2 (10.0.0.2) sent no heartbeat for its session timeout"
    )
    assert formatting.why(rebalance(3, 9, "member_left", reason="consumer closed")).endswith("left: “consumer closed”")
    assert formatting.why(rebalance(3, 9, None)) == "nobody knows why"
    assert formatting.why(rebalance(3, 9, "moon_rose")) == "moon rose"
    unknown = rebalance(3, 9, "member_left") | dict.fromkeys(
        ("trigger_member_id", "trigger_client_id", "trigger_host", "trigger_instance_id")
    )
    assert formatting.why(unknown) == "a member left"


def test_a_member_is_named_by_its_best_name() -> None:
    assert formatting.who("client", "/10.0.0.1", "instance", "id") == "instance (10.0.0.1)"
    assert formatting.who("client", None, None, "id") == "client"
    assert formatting.who(None, None, None, "id") == "id"


def test_a_setting_is_described_in_words() -> None:
    assert formatting.setting_words('{"static":true,"session.timeout.ms":45000,"assignor":"sticky"}') == (
        "static, session.timeout 45 s, assignor sticky"
    )
    assert formatting.setting_words('{"static":false}') == "not static"
    assert formatting.setting_words("{}") == formatting.setting_words(None) == "nothing changed"


def test_impossible_times_are_listed_with_their_groups() -> None:
    rows = [{"group": f"g{number}", "commits": number + 1, "stated_ms": 0} for number in range(4)]
    assert formatting.odd_times([], 0) == ""
    assert formatting.odd_times(rows[:2], 2) == (
        "times of commits that cannot be, taken from the log around them: g0 (1 commit, as of 1970-01-01 00:00:00), "
        "g1 (2 commits, as of 1970-01-01 00:00:00)"
    )
    assert formatting.odd_times(rows, 7).endswith("g2 (3 commits, as of 1970-01-01 00:00:00) and 4 more groups")
