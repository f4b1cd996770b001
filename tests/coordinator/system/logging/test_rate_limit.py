"""The same line again and again is counted, by its cause; nothing that is told once is left out."""

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


class Bench:
    def __init__(self) -> None:
        self.now_ms = 0
        self.woken = 0
        self.limiter = Limiter(lambda: self.now_ms, self._wake)

    def _wake(self) -> None:
        self.woken += 1

    def say(self, text: str = "closed a connection", level: str = "warning", logger: str = "net", **facts: Any) -> bool:
        """Whether it was told."""
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
def bench() -> Bench:
    return Bench()


def test_the_first_lines_of_a_cause_are_logged_and_the_others_counted(bench: Bench) -> None:
    assert bench.say_often(5_000, why="no size") == MAX_OF_A_CAUSE
    assert bench.woken == 1
    assert bench.limiter.due() == ([], WINDOW_MS / 1000)
    bench.now_ms = WINDOW_MS
    (line,), again = bench.limiter.due()
    assert again is None
    assert line == {
        "event": f"closed a connection … and {5_000 - MAX_OF_A_CAUSE} more of these in the last 10 seconds",
        "level": "warning", "logger": "net", "why": "no size", "more": 5_000 - MAX_OF_A_CAUSE, "seconds": 10,
    }  # fmt: skip
    assert bench.limiter.due() == ([], None)
    # and from the beginning
    assert bench.say_often(100, why="no size") == MAX_OF_A_CAUSE
    assert bench.woken == 2


def test_a_line_of_another_cause_is_logged_during_a_flood(bench: Bench) -> None:
    bench.say_often(100, why="frame of 17 bytes")
    assert not bench.say(why="frame of 18 bytes")  # a number makes no other cause
    assert bench.say(why="not UTF-8")
    assert bench.say("another line")
    assert bench.say(logger="api")
    bench.now_ms = WINDOW_MS
    assert bench.due() == [("frame of 18 bytes", 101 - MAX_OF_A_CAUSE)]


@pytest.mark.parametrize("name", ["group", "partition", "path", "topic", "api"])
def test_lines_about_different_objects_have_different_causes(bench: Bench, name: str) -> None:
    for number in range(9):
        assert bench.say_often(30, **{name: f"g-{number}"}) == MAX_OF_A_CAUSE


def test_lines_with_ever_new_causes_are_bounded_too(bench: Bench) -> None:
    causes = [chr(97 + number // 26) + chr(97 + number % 26) for number in range(600)]
    told = [why for why in causes * 3 if bench.say(why=why)]
    assert len(told) == MAX_OF_A_KIND
    assert len(bench.limiter._kinds["net", "closed a connection"].causes) <= MAX_OF_A_KIND
    bench.now_ms = WINDOW_MS
    lines = bench.due()
    assert len(lines) == MAX_CAUSES + 1
    assert sum(more for _, more in lines) == 3 * 600 - MAX_OF_A_KIND
    assert lines[-1][0] == ""  # of many causes


@pytest.mark.parametrize("name", ["path", "partition"])
def test_lines_about_data_files_are_logged_for_each_file(bench: Bench, name: str) -> None:
    for number in range(10 * MAX_OF_A_KIND):
        assert bench.say("a torn tail was cut off", logger="log", **{name: f"data/t-{number}/0.log"})
    assert bench.say_often(100, **{name: "data/t-1/0.log"}) == MAX_OF_A_CAUSE


def test_many_causes_are_summed_up_shortly(bench: Bench) -> None:
    for number in range(MAX_CAUSES - 1):
        bench.say_often(MAX_OF_A_CAUSE + number, group=f"g{number}")
    bench.now_ms = WINDOW_MS
    assert [more for _, more in bench.due()] == list(range(MAX_CAUSES - 2, 0, -1))


def test_long_reasons_are_bounded_in_memory(bench: Bench) -> None:
    bench.say(why="x" * 100_000, group="g" * 100_000)
    ((cause, _),) = bench.limiter._kinds["net", "closed a connection"].causes.items()
    assert sum(map(len, cause)) < 2 * ALIKE + 50


def test_a_window_without_suppressed_lines_is_restarted(bench: Bench) -> None:
    assert bench.say_often(MAX_OF_A_CAUSE) == MAX_OF_A_CAUSE
    bench.now_ms = WINDOW_MS
    assert bench.say_often(MAX_OF_A_CAUSE) == MAX_OF_A_CAUSE
    assert bench.woken == 0


def test_counting_continues_until_suppressed_lines_are_reported(bench: Bench) -> None:
    bench.say_often(100)
    bench.now_ms = 2 * WINDOW_MS
    assert not bench.say()
    (line,), _ = bench.limiter.due()
    assert (line["more"], line["seconds"]) == (101 - MAX_OF_A_CAUSE, 20)


def test_all_suppressed_lines_are_reported_at_the_end(bench: Bench) -> None:
    bench.say_often(100)
    assert bench.due() == []
    assert bench.due(all_of_them=True) == [("", 100 - MAX_OF_A_CAUSE)]


def test_debug_lines_and_summaries_are_not_rate_limited(bench: Bench) -> None:
    assert all(bench.say(level="debug") for _ in range(1_000))
    event = {"event": "x", "level": "warning", "logger": "net", SUMMARY: True}
    for _ in range(1_000):
        assert SUMMARY not in bench.limiter(None, "warning", dict(event))
    assert bench.limiter._kinds == {}


def test_lines_of_many_texts_are_bounded_in_memory(bench: Bench) -> None:
    bench.say_often(100)
    for number in range(3 * MAX_KINDS):
        bench.say(f"text {number}")
    assert len(bench.limiter._kinds) <= MAX_KINDS
    bench.now_ms = WINDOW_MS
    assert ("", 100 - MAX_OF_A_CAUSE) in bench.due()


def test_too_many_flooding_kinds_are_counted_as_one(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rate_limit, "MAX_KINDS", 3)
    for text in "abcde":
        bench.say_often(MAX_OF_A_CAUSE + 1, text=text)
    assert len(bench.limiter._kinds) == 4
