"""Log lines: JSON for machines, readable on a terminal, and never broken by text of a client."""

import io
import json
import logging
import re
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
import structlog

from muster.coordinator.system.logging import output, writer
from muster.coordinator.system.logging.output import LEVELS, LOGGERS, ROOT
from muster.coordinator.system.logging.rate_limit import MAX_OF_A_CAUSE


@pytest.fixture(autouse=True)
def as_before() -> Iterator[None]:
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    yield
    structlog.reset_defaults()
    root.handlers[:] = handlers
    root.setLevel(level)


def test_log_lines_are_json_objects() -> None:
    out = io.StringIO()
    log = output.configure("info", stream=out)
    structlog.get_logger("muster.test").info("it happened", group="g\n\x1b[2J", count=3)
    assert log.close()
    line = json.loads(out.getvalue())
    assert line.pop("timestamp").endswith("Z")
    assert line == {
        "event": "it happened",
        "group": "'g\\n\\x1b[2J'",
        "count": 3,
        "level": "info",
        "logger": "muster.test",
    }


def test_log_lines_on_a_terminal_are_readable_and_escaped() -> None:
    out = io.StringIO()
    log = output.configure("info", stream=out, terminal=True)
    structlog.get_logger("muster.test").warning("it happened", client="x\x1b[2J\nforged")
    assert log.close()
    text = out.getvalue()
    assert "it happened" in text
    assert text.count("\n") == 1
    assert "\x1b[2J" not in text


def test_the_log_level_filters_lines() -> None:
    out = io.StringIO()
    log = output.configure("warning", stream=out)
    structlog.get_logger("a").info("no")
    structlog.get_logger("a").warning("yes")
    assert log.close()
    assert [json.loads(line)["event"] for line in out.getvalue().splitlines()] == ["yes"]


def test_the_level_of_each_logger_can_be_changed() -> None:
    out = io.StringIO()
    log = output.configure("info", stream=out)
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
    assert log.close()
    assert [json.loads(line)["event"] for line in out.getvalue().splitlines()] == ["1", "2", "3", "4"]
    assert [LEVELS.name(name) for name in (ROOT, "muster", "muster.groups", "elsewhere")] == ["INFO"] * 4


def test_every_logger_of_the_server_can_be_configured() -> None:
    muster = Path(output.__file__).parents[3]
    folders = ("coordinator", "cli", "client", "postgres", "testcontrol")
    texts = [path.read_text(encoding="utf-8") for name in folders for path in (muster / name).rglob("*.py")]
    names = {name for text in texts for name in re.findall(r'get_logger\("([a-z.]+)"\)', text)}
    assert names
    assert names <= set(LOGGERS)


@pytest.mark.parametrize("terminal", [False, True])
def test_exceptions_are_logged_with_their_traceback(terminal: bool) -> None:
    out = io.StringIO()
    log = output.configure("info", stream=out, terminal=terminal)
    try:
        raise ValueError("boom")
    except ValueError as error:
        structlog.get_logger("a").error("failed", exc_info=error)
    assert log.close()
    assert "ValueError: boom" in out.getvalue()
    assert terminal or out.getvalue().count("\n") == 1


def test_log_lines_of_libraries_are_included() -> None:
    out = io.StringIO()
    log = output.configure("info", stream=out)
    logging.getLogger("asyncio").warning("slow %s", "callback")
    logging.getLogger("asyncio").info("not this")
    assert log.close()
    lines = [json.loads(line) for line in out.getvalue().splitlines()]
    assert [(line["logger"], line["event"]) for line in lines] == [("asyncio", "slow callback")]


class Gone(io.StringIO):
    def write(self, text: str) -> int:
        raise BrokenPipeError


def test_logging_to_a_closed_stream_raises_nothing() -> None:
    log = output.configure("info", stream=Gone())
    structlog.get_logger("a").info("into the void")
    assert log.close()


def test_logging_without_stderr_raises_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stderr", None)
    log = output.configure("info")
    structlog.get_logger("a").info("into the void")
    assert log.close()


def test_values_chosen_by_clients_are_shortened() -> None:
    out = io.StringIO()
    log = output.configure("info", stream=out)
    structlog.get_logger("a").info("refused", client_id="x" * 30_000, properties="y" * 30_000)
    assert log.close()
    line = json.loads(out.getvalue())
    assert line["client_id"] == "x" * output.LONGEST + "…"
    assert line["properties"] == "y" * 30_000


def test_repeated_log_lines_are_counted() -> None:
    out = io.StringIO()
    log = output.configure("info", stream=out)
    for number in range(5_000):
        structlog.get_logger("a").warning("closed a connection", peer=f"10.0.0.1:{number}", why=f"{number} is no size")
    structlog.get_logger("a").warning("closed a connection", peer="10.0.0.1:1", why="another reason")
    log.write("the end")
    assert log.close()
    *lines, end, summary = out.getvalue().splitlines()
    assert (len(lines), end) == (MAX_OF_A_CAUSE + 1, "the end")
    reported = json.loads(summary)
    assert (reported["level"], reported["logger"], reported["more"], reported["why"]) == (
        "warning", "a", 5_000 - MAX_OF_A_CAUSE, "4999 is no size",
    )  # fmt: skip
    assert reported["event"].startswith("closed a connection … and 4980 more of these in the last ")
    assert "peer" not in reported


def test_dropped_log_lines_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(writer, "MAX_LINES", 3)
    gate = threading.Event()

    class Slow(io.StringIO):
        def write(self, text: str) -> int:
            began.set()
            assert gate.wait(60)
            return super().write(text)

    began, out = threading.Event(), Slow()
    log = output.configure("info", stream=out)
    structlog.get_logger("a").info("first")
    assert began.wait(60)
    for number in range(10):
        structlog.get_logger("a").info(f"line {number}")  # of ten kinds: this test is not about the limit
    gate.set()
    assert log.close(60)
    lines = [json.loads(line) for line in out.getvalue().splitlines()]
    assert [line["event"] for line in lines] == [
        "first", "line 0", "line 1", "line 2", "lines of this log were lost: it was not read",
    ]  # fmt: skip
    assert lines[-1]["count"] == 7
