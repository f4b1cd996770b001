"""A line that is repeated is counted, by its cause; a line that is logged only once is never left out."""

from __future__ import annotations

from typing import Any

import pytest
import structlog

from muster.coordinator.system.logging import rate_limit
from muster.coordinator.system.logging.rate_limit import (
    ALIKE,
    MAX_CAUSES,
    MAX_KINDS,
    MAX_OF_A_CAUSE,
    MAX_OF_A_KIND,
    SUMMARY,
    WINDOW_MS,
    Limiter,
)


class RateLimitHarness:
    def __init__(self) -> None:
        self.now_ms = 0
        self.woken = 0
        self.limiter = Limiter(lambda: self.now_ms, self._wake)

    def _wake(self) -> None:
        self.woken += 1

    def say(self, text: str = "closed a connection", level: str = "warning", logger: str = "net", **facts: Any) -> bool:
        """Whether the line was logged."""
        try:
            self.limiter(None, level, {"event": text, "level": level, "logger": logger, **facts})
        except structlog.DropEvent:
            return False
        return True

    def say_often(self, count: int, **facts: Any) -> int:
        return sum(self.say(peer=f"10.0.0.1:{number}", **facts) for number in range(count))

    def due(self, *, all_of_them: bool = False) -> list[tuple[str, int]]:
        return [(line.get("why", ""), line["more"]) for line in self.limiter.due(all_of_them=all_of_them)[0]]


@pytest.fixture
def harness() -> RateLimitHarness:
    return RateLimitHarness()


def test_the_first_lines_of_a_cause_are_logged_and_the_others_counted(harness: RateLimitHarness) -> None:
    assert harness.say_often(5_000, why="no size") == MAX_OF_A_CAUSE
    assert harness.woken == 1
    assert harness.limiter.due() == ([], WINDOW_MS / 1000)
    harness.now_ms = WINDOW_MS
    (line,), again = harness.limiter.due()
    assert again is None
    assert line == {
        "event": f"closed a connection … and {5_000 - MAX_OF_A_CAUSE} more of these in the last 10 seconds",
        "level": "warning", "logger": "net", "why": "no size", "more": 5_000 - MAX_OF_A_CAUSE, "seconds": 10,
    }  # fmt: skip
    assert harness.limiter.due() == ([], None)
    # and from the beginning
    assert harness.say_often(100, why="no size") == MAX_OF_A_CAUSE
    assert harness.woken == 2


def test_a_line_of_another_cause_is_logged_during_a_flood(harness: RateLimitHarness) -> None:
    harness.say_often(100, why="frame of 17 bytes")
    assert not harness.say(why="frame of 18 bytes")  # another number does not make another cause
    assert harness.say(why="not UTF-8")
    assert harness.say("another line")
    assert harness.say(logger="api")
    harness.now_ms = WINDOW_MS
    assert harness.due() == [("frame of 18 bytes", 101 - MAX_OF_A_CAUSE)]


@pytest.mark.parametrize("name", ["group", "partition", "path", "topic", "api"])
def test_lines_about_different_objects_have_different_causes(harness: RateLimitHarness, name: str) -> None:
    for number in range(9):
        assert harness.say_often(30, **{name: f"g-{number}"}) == MAX_OF_A_CAUSE


def test_lines_with_ever_new_causes_are_bounded_too(harness: RateLimitHarness) -> None:
    causes = [chr(97 + number // 26) + chr(97 + number % 26) for number in range(600)]
    reported = [why for why in causes * 3 if harness.say(why=why)]
    assert len(reported) == MAX_OF_A_KIND
    assert len(harness.limiter._kinds["net", "closed a connection"].causes) <= MAX_OF_A_KIND
    harness.now_ms = WINDOW_MS
    lines = harness.due()
    assert len(lines) == MAX_CAUSES + 1
    assert sum(more for _, more in lines) == 3 * 600 - MAX_OF_A_KIND
    assert lines[-1][0] == ""  # lines of many causes


@pytest.mark.parametrize("name", ["path", "partition"])
def test_lines_about_data_files_are_logged_for_each_file(harness: RateLimitHarness, name: str) -> None:
    for number in range(10 * MAX_OF_A_KIND):
        assert harness.say("a torn tail was cut off", logger="log", **{name: f"data/t-{number}/0.log"})
    assert harness.say_often(100, **{name: "data/t-1/0.log"}) == MAX_OF_A_CAUSE


def test_many_causes_are_summed_up_shortly(harness: RateLimitHarness) -> None:
    for number in range(MAX_CAUSES - 1):
        harness.say_often(MAX_OF_A_CAUSE + number, group=f"g{number}")
    harness.now_ms = WINDOW_MS
    assert [more for _, more in harness.due()] == list(range(MAX_CAUSES - 2, 0, -1))


def test_long_reasons_are_bounded_in_memory(harness: RateLimitHarness) -> None:
    harness.say(why="x" * 100_000, group="g" * 100_000)
    ((cause, _),) = harness.limiter._kinds["net", "closed a connection"].causes.items()
    assert sum(map(len, cause)) < 2 * ALIKE + 50


def test_a_window_without_suppressed_lines_is_restarted(harness: RateLimitHarness) -> None:
    assert harness.say_often(MAX_OF_A_CAUSE) == MAX_OF_A_CAUSE
    harness.now_ms = WINDOW_MS
    assert harness.say_often(MAX_OF_A_CAUSE) == MAX_OF_A_CAUSE
    assert harness.woken == 0


def test_counting_continues_until_suppressed_lines_are_reported(harness: RateLimitHarness) -> None:
    harness.say_often(100)
    harness.now_ms = 2 * WINDOW_MS
    assert not harness.say()
    (line,), _ = harness.limiter.due()
    assert (line["more"], line["seconds"]) == (101 - MAX_OF_A_CAUSE, 20)


def test_all_suppressed_lines_are_reported_at_the_end(harness: RateLimitHarness) -> None:
    harness.say_often(100)
    assert harness.due() == []
    assert harness.due(all_of_them=True) == [("", 100 - MAX_OF_A_CAUSE)]


def test_debug_lines_and_summaries_are_not_rate_limited(harness: RateLimitHarness) -> None:
    assert all(harness.say(level="debug") for _ in range(1_000))
    event = {"event": "x", "level": "warning", "logger": "net", SUMMARY: True}
    for _ in range(1_000):
        assert SUMMARY not in harness.limiter(None, "warning", dict(event))
    assert harness.limiter._kinds == {}


def test_lines_of_many_texts_are_bounded_in_memory(harness: RateLimitHarness) -> None:
    harness.say_often(100)
    for number in range(3 * MAX_KINDS):
        harness.say(f"text {number}")
    assert len(harness.limiter._kinds) <= MAX_KINDS
    harness.now_ms = WINDOW_MS
    assert ("", 100 - MAX_OF_A_CAUSE) in harness.due()


def test_too_many_flooding_kinds_are_counted_as_one(harness: RateLimitHarness, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rate_limit, "MAX_KINDS", 3)
    for text in "abcde":
        harness.say_often(MAX_OF_A_CAUSE + 1, text=text)
    assert len(harness.limiter._kinds) == 4
