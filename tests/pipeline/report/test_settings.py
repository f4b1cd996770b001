"""The sentence about the what-if of a setting."""

from __future__ import annotations

import pytest

from muster.pipeline.report.settings import answer
from tests.pipeline.report.made import setting


@pytest.mark.parametrize(
    ("changed", "detect_ms", "said"),
    [
        ('{"static":true}', 10_000.0, "x: 9 instead of 3 rebalances"),
        ('{"assignor":"cooperative-sticky"}', 10_000.0, "x: 9 short rounds instead of 3 rebalances"),
        ('{"assignor":"sticky"}', 10_000.0, "x: 9 instead of 3 rebalances"),
        ('{"group.protocol":"consumer"}', 10_000.0, "x: 9 epochs, in which nobody stops what he keeps, instead of 3"),
        ('{"session.timeout.ms":6000}', 6_000.0, "; not counted: members that only paused, and that a shorter session"),
    ],
)
def test_the_sentence_of_a_setting_names_what_is_counted(changed: str, detect_ms: float, said: str) -> None:
    row = setting("x", 9, 20.0, changed) | {"detect_ms": detect_ms, "actual_detect_ms": 10_000.0}
    reported = answer(row, 0)
    assert said in reported
    assert ("not counted" in reported) == ("session" in changed)


def test_a_longer_session_removes_no_member() -> None:
    row = setting("x", 9, 20.0, '{"session.timeout.ms":60000}') | {"detect_ms": 60_000.0, "actual_detect_ms": 10_000.0}
    assert "not counted" not in answer(row, 0)
