"""Log lines: JSON for machines, readable on a terminal, never broken by what a client says."""

import io
import json
import logging
from collections.abc import Iterator

import pytest
import structlog

from muster.coordinator import log_output
from muster.coordinator.log_levels import LEVELS, ROOT


@pytest.fixture(autouse=True)
def as_before() -> Iterator[None]:
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    yield
    structlog.reset_defaults()
    root.handlers[:] = handlers
    root.setLevel(level)


def test_json() -> None:
    out = io.StringIO()
    log_output.configure("info", stream=out)
    structlog.get_logger("muster.test").info("it happened", group="g\n\x1b[2J", count=3)
    line = json.loads(out.getvalue())
    assert line.pop("timestamp").endswith("Z")
    assert line == {
        "event": "it happened",
        "group": "'g\\n\\x1b[2J'",
        "count": 3,
        "level": "info",
        "logger": "muster.test",
    }


def test_terminal() -> None:
    out = io.StringIO()
    log_output.configure("info", stream=out, terminal=True)
    structlog.get_logger("muster.test").warning("it happened", client="x\x1b[2J\nforged")
    text = out.getvalue()
    assert "it happened" in text
    assert text.count("\n") == 1
    assert "\x1b[2J" not in text


def test_levels() -> None:
    out = io.StringIO()
    log_output.configure("warning", stream=out)
    structlog.get_logger("a").info("no")
    structlog.get_logger("a").warning("yes")
    assert [json.loads(line)["event"] for line in out.getvalue().splitlines()] == ["yes"]


def test_levels_may_be_changed_for_each_logger() -> None:
    out = io.StringIO()
    log_output.configure("info", stream=out)
    mine, other = structlog.get_logger("muster.groups"), structlog.get_logger("muster.log")
    mine.debug("no")
    LEVELS.set("muster", "DEBUG")
    mine.debug("1")
    LEVELS.set("muster.groups", "ERROR")
    mine.warning("no")
    mine.log(logging.WARNING, "no")
    mine.error("2")
    other.log(logging.DEBUG, "3")
    LEVELS.unset("muster.groups")
    LEVELS.unset("muster")
    LEVELS.unset(ROOT)
    mine.info("4")
    mine.debug("no")
    assert [json.loads(line)["event"] for line in out.getvalue().splitlines()] == ["1", "2", "3", "4"]
    assert [LEVELS.name(name) for name in (ROOT, "muster", "muster.groups", "elsewhere")] == ["INFO"] * 4


@pytest.mark.parametrize("terminal", [False, True])
def test_exceptions(terminal: bool) -> None:
    out = io.StringIO()
    log_output.configure("info", stream=out, terminal=terminal)
    try:
        raise ValueError("boom")
    except ValueError as error:
        structlog.get_logger("a").error("failed", exc_info=error)
    assert "ValueError: boom" in out.getvalue()
    assert terminal or out.getvalue().count("\n") == 1


def test_what_libraries_log_comes_too() -> None:
    out = io.StringIO()
    log_output.configure("info", stream=out)
    logging.getLogger("asyncio").warning("slow %s", "callback")
    logging.getLogger("asyncio").info("not this")
    lines = [json.loads(line) for line in out.getvalue().splitlines()]
    assert [(line["logger"], line["event"]) for line in lines] == [("asyncio", "slow callback")]


class Gone(io.StringIO):
    def write(self, text: str) -> int:
        raise BrokenPipeError


def test_nobody_reads_the_log() -> None:
    log_output.configure("info", stream=Gone())
    structlog.get_logger("a").info("into the void")
