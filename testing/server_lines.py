"""Keeps the log lines of a server in a thread of this process, for the report of a failed test.

The modules of the server log by structlog, whose configuration belongs to the program under test and is left alone. So
the loggers of the server's modules are replaced by loggers that check the thread. A line from a server's thread is
kept. In any other thread, the old logger gets the line. A module that is imported later gets such a logger when it is
loaded.
"""

from __future__ import annotations

import functools
import sys
import threading
import time
import traceback
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Final

import structlog

from muster.coordinator.system.logging.output import LEVELS, ROOT

MAX_LINES: Final = 5_000
"""The most lines that are kept of one server. The oldest lines are removed first."""
_LEVELS: Final = {"debug": 10, "info": 20, "warning": 30, "error": 40, "exception": 40, "critical": 50}


@dataclass(frozen=True, slots=True)
class Line:
    """A line of the server's log. `level`: debug, info, warning or error; `facts`: the values that follow the text."""

    wall_ms: int
    level: str
    logger: str
    text: str
    facts: dict[str, object] = field(default_factory=dict)

    def __str__(self) -> str:
        facts = "".join(f" {name}={value}" for name, value in self.facts.items() if name != "exc_info")
        return f"{self.level} {self.logger}: {self.text}{facts}"


class ServerLines:
    """The lines of one server. The server's thread may add lines while another thread reads."""

    def __init__(self) -> None:
        self._lines: deque[Line] = deque(maxlen=MAX_LINES)
        self.count = 0
        """The number of all lines until now, also of removed ones."""

    def add(self, line: Line) -> None:
        """Add a line."""
        self._lines.append(line)
        self.count += 1

    def since(self, count: int) -> list[Line]:
        """The kept lines after the first `count` lines."""
        left = self.count - count
        return list(self._lines)[-left:] if left > 0 else []

    def warnings(self, since: int = 0) -> list[Line]:
        """The kept warnings and errors after the first `since` lines."""
        return [line for line in self.since(since) if _LEVELS.get(line.level, 0) >= _LEVELS["warning"]]


_OF_THREAD: dict[int, ServerLines] = {}
_LOCK: Final = threading.Lock()


class _ByThread:
    """Replaces a logger of the server: see the module."""

    __slots__ = ("_name", "_original")

    def __init__(self, original: Any, name: str) -> None:
        self._original = original
        self._name = name

    def __getattr__(self, method: str) -> Any:
        lines = _OF_THREAD.get(threading.get_ident())
        if lines is None or method not in _LEVELS:
            return getattr(self._original, method)

        def say(text: str, *_: object, **facts: Any) -> None:
            error = facts.pop("exc_info", None)
            if method == "exception" or error is True:
                error = sys.exc_info()[1]
            if isinstance(error, BaseException):
                facts["error"] = "".join(traceback.format_exception(error)).rstrip()
            level = "error" if method in ("exception", "critical") else method
            lines.add(Line(time.time_ns() // 1_000_000, level, self._name, text, facts))

        return say


def keep(lines: ServerLines) -> None:
    """From now on, keep the lines that the server logs in the calling thread."""
    _OF_THREAD[threading.get_ident()] = lines
    LEVELS.set(ROOT, "DEBUG")  # lines of all levels are kept
    _replace_loggers()


def keep_no_more() -> None:
    """Keep no more lines of the calling thread, because its server has ended."""
    _OF_THREAD.pop(threading.get_ident(), None)


def _replace_loggers() -> None:
    """Replace, only once, the loggers of loaded modules, and the function of structlog from which later modules get
    theirs.
    """
    with _LOCK:
        usual = structlog.get_logger
        if hasattr(usual, "of_muster"):
            return

        @functools.wraps(usual)
        def get_logger(*args: Any, **initial_values: Any) -> Any:
            made = usual(*args, **initial_values)
            if args and isinstance(args[0], str) and args[0].startswith("muster."):
                return _ByThread(made, args[0])
            return made

        get_logger.of_muster = True  # type: ignore[attr-defined]  # marks that the function is replaced
        structlog.get_logger = get_logger
        for module, name in _loggers():
            module.log = _ByThread(module.log, name)


def _loggers() -> Iterator[tuple[Any, str]]:
    for module_name, module in list(sys.modules.items()):
        if not module_name.startswith("muster."):
            continue
        log = vars(module).get("log")
        # this may be the result of structlog's `get_logger("muster.…")`
        names = getattr(log, "_logger_factory_args", ())
        if names and isinstance(names[0], str):
            yield module, names[0]
