"""Quiet times."""

from __future__ import annotations

import pytest

from muster.coordinator.alerts.quiet_times import is_quiet, quiet_time
from muster.coordinator.system.wall_time import parse_wall_ms


@pytest.mark.parametrize(
    ("text", "quiet", "loud"),
    [
        ("09:00-17:30", ("2026-11-30T09:00", "2026-11-30T17:29"), ("2026-11-30T08:59", "2026-11-30T17:30")),
        ("22:00-06:00", ("2026-11-30T22:00", "2026-12-01T05:59"), ("2026-11-30T21:59", "2026-11-30T06:00")),
        ("Sun", ("2026-11-29T00:00", "2026-11-29T23:59"), ("2026-11-28T23:59", "2026-11-30T00:00")),
        ("Sat 23:00-01:00", ("2026-11-28T23:30", "2026-11-29T00:30"), ("2026-11-29T23:30", "2026-11-28T00:30")),
        ("00:00-24:00", ("2026-11-29T12:00",), ()),
    ],
)
def test_a_quiet_time_holds_in_it_and_not_around_it(text: str, quiet: tuple[str, ...], loud: tuple[str, ...]) -> None:
    times = [quiet_time(text)]
    assert [is_quiet(times, parse_wall_ms(one)) for one in quiet] == [True] * len(quiet)
    assert [is_quiet(times, parse_wall_ms(one)) for one in loud] == [False] * len(loud)
    assert not is_quiet([], parse_wall_ms(quiet[0]))


@pytest.mark.parametrize("text", ["", "night", "25:00-26:00", "10:00", "Foo 10:00-11:00", "10:00-10:00"])
def test_another_text_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="no quiet time"):
        quiet_time(text)
