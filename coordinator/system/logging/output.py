"""Log lines go to stderr, from the level of their logger on: readable on a terminal, otherwise as JSON.

Other packages only call `structlog.get_logger(name)`. The server never waits for a reader of the lines (`writer`), and
repeated lines are limited (`rate_limit`).
"""

from __future__ import annotations

import logging
import sys
from collections.abc import Mapping, MutableMapping
from types import MappingProxyType
from typing import Any, Final, TextIO

# structlog loads rich when it finds it (40 ms), to format tracebacks; here they are formatted plainly
_hidden = "rich" not in sys.modules
if _hidden:
    sys.modules["rich"] = None  # type: ignore[assignment]  # what the import system takes for "not to be had"
import structlog  # noqa: E402  # only after rich is hidden

if _hidden:
    del sys.modules["rich"]

from muster.coordinator.system.clock import mono_ms  # noqa: E402  # as above
from muster.coordinator.system.logging.rate_limit import SUMMARY, Limiter  # noqa: E402  # as above
from muster.coordinator.system.logging.writer import CLOSE_S, LineWriter, writer  # noqa: E402  # as above

ROOT: Final = "root"
LOGGERS: Final = (
    ROOT,
    "muster",
    "muster.api",
    "muster.authorizer",
    "muster.cluster",
    "muster.config",
    "muster.events",
    "muster.groups",
    "muster.http",
    "muster.log",
    "muster.net",
    "muster.nodes",
    "muster.server",
    "muster.shard",
    "muster.share",
    "muster.testcontrol",
    "muster.topics",
    "muster.transactions",
)
"""The loggers whose level can be set."""
NUMBERS: Final[Mapping[str, int]] = MappingProxyType(
    {"TRACE": 5, "DEBUG": 10, "INFO": 20, "WARN": 30, "ERROR": 40, "FATAL": 50}
)
"""Kafka's name of a level -> its number in Python's logging. Lines with a lower number are dropped."""
_NAMES: Final = {number: name for name, number in NUMBERS.items()}


class Levels:
    """The level of each logger, which requests for broker loggers (KIP-412) change until the process ends.

    These loggers are not those of the process, in which libraries have their levels.
    """

    def __init__(self) -> None:
        root = logging.RootLogger(NUMBERS["INFO"])
        self._hierarchy = root.manager = logging.Manager(root)

    def logger(self, name: str) -> logging.Logger:
        """The logger of Python that says whether lines are enabled. No line is written to that logger."""
        return self._hierarchy.root if name == ROOT else self._hierarchy.getLogger(name)

    def name(self, logger: str) -> str:
        """The effective level, by Kafka's name."""
        return _NAMES[self.logger(logger).getEffectiveLevel()]

    def set(self, logger: str, level: str) -> None:
        """Set the level of a logger, by Kafka's name. Raises KeyError for an unknown level."""
        self.logger(logger).setLevel(NUMBERS[level])

    def unset(self, logger: str) -> None:
        """Let a logger inherit its level again. The logger may not be the root."""
        if logger != ROOT:
            self.logger(logger).setLevel(logging.NOTSET)


LEVELS: Final = Levels()
"""The levels of this process."""

OPTIONS = {"debug": "DEBUG", "info": "INFO", "warning": "WARN", "error": "ERROR"}
"""The levels of --log-level, from the most lines to the fewest, by Kafka's names for them."""
_METHODS = {
    "debug": logging.DEBUG,
    "info": logging.INFO,
    "warning": logging.WARNING,
    "error": logging.ERROR,
    "critical": logging.CRITICAL,
    "exception": logging.ERROR,
}

LONGEST: Final = 1_000
"""The most characters of a value in a line that a client may have chosen. A longer value ends with "…"."""
OWN_WORDS: Final = frozenset(
    ("event", "exception", "stack", "logger", "level", "properties", "path", "error", "what", "what_to_do")
)
"""Fields whose values clients cannot make long."""

Event = MutableMapping[str, Any]


class Log:
    """The open log: `configure` returns it, and the caller closes it at the end."""

    def __init__(self, stream: TextIO | None) -> None:
        self._lines_out = LineWriter(writer(stream), self._log_lost, self._log_left_out)
        self.limiter = Limiter(mono_ms, self._lines_out.wake)

    def write(self, text: str) -> None:
        """Write a text that is no log line (the last output of a command), after all logged lines."""
        self._lines_out.put(text)

    def close(self, timeout_s: float = CLOSE_S) -> bool:
        """Log the counts of dropped lines, and wait until all lines are written. False: `timeout_s` was too short."""
        _log_all(self.limiter.due(all_of_them=True)[0])
        return self._lines_out.close(timeout_s)

    def _log_lost(self, count: int) -> None:
        _log_all([{"logger": "muster.log", "level": "warning", "event": "lines of this log were lost: it was not read",
                "count": count}])  # fmt: skip

    def _log_left_out(self) -> float | None:
        lines, in_s = self.limiter.due()
        _log_all(lines)
        return in_s


def _log_all(lines: list[dict[str, Any]]) -> None:
    for line in lines:
        logger, level, text = line.pop("logger"), line.pop("level"), line.pop("event")
        getattr(structlog.get_logger(logger), level)(text, **line, **{SUMMARY: True})


class _Lines:
    __slots__ = ("_log", "is_enabled", "name")

    def __init__(self, log: Log, name: str) -> None:
        self._log = log
        self.name = name
        self.is_enabled = LEVELS.logger(name).isEnabledFor

    def msg(self, line: str) -> None:
        self._log.write(line)

    debug = info = warning = error = critical = exception = msg


class _Bridge(logging.Handler):
    def emit(self, record: logging.LogRecord) -> None:
        structlog.get_logger(record.name).log(record.levelno, record.getMessage(), exc_info=record.exc_info)


def _add_logger(logger: _Lines, _method: str, event: Event) -> Event:
    event["logger"] = logger.name
    return event


def _printable(_logger: object, _method: str, event: Event) -> Event:
    """Escape text that clients chose: it may not move the cursor or start a line of its own."""
    for key, value in event.items():
        if isinstance(value, str):
            if len(value) > LONGEST and key not in OWN_WORDS:
                event[key] = value = value[:LONGEST] + "…"
            if not value.isprintable() and key not in ("exception", "stack"):
                event[key] = repr(value)
    return event


def _filtered_logger() -> type[Any]:
    """Return a logger that asks for the level before it makes a line; structlog's own filter asks later."""
    every: Any = structlog.make_filtering_bound_logger(logging.NOTSET)

    def filtered(name: str, number: int) -> Any:
        write = getattr(every, name)

        def method(self: Any, event: str, *args: Any, **values: Any) -> Any:
            return write(self, event, *args, **values) if self._logger.is_enabled(number) else None

        return method

    def log(self: Any, number: int, event: str, *args: Any, **values: Any) -> Any:
        return every.log(self, number, event, *args, **values) if self._logger.is_enabled(number) else None

    def is_enabled_for(self: Any, number: int) -> bool:
        enabled: bool = self._logger.is_enabled(number)
        return enabled

    methods = {name: filtered(name, number) for name, number in _METHODS.items()}
    return type("FilteredLogger", (every,), {**methods, "log": log, "is_enabled_for": is_enabled_for})


def configure(level: str, *, stream: TextIO | None = None, terminal: bool | None = None) -> Log:
    """Send log lines of `level` (a key of OPTIONS) and above to `stream` (stderr when None).

    `terminal`: whether lines are coloured; None: if the stream is a terminal. The caller closes the result.
    """
    out: TextIO | None = sys.stderr if stream is None else stream  # None: the process was started without stderr
    readable = (out is not None and out.isatty()) if terminal is None else terminal
    log = Log(out)
    if readable:
        last: list[Any] = [
            structlog.processors.TimeStamper(fmt="%H:%M:%S.%f", utc=False),
            structlog.dev.ConsoleRenderer(
                colors=True, pad_event_to=0, exception_formatter=structlog.dev.plain_traceback
            ),
        ]
    else:
        last = [
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            structlog.processors.format_exc_info,
            structlog.processors.JSONRenderer(),
        ]
    structlog.configure(
        processors=[_add_logger, structlog.processors.add_log_level, log.limiter, _printable, *last],
        wrapper_class=_filtered_logger(),
        logger_factory=lambda name="muster", *_: _Lines(log, str(name)),
        cache_logger_on_first_use=True,
    )
    LEVELS.set(ROOT, OPTIONS[level])
    root = logging.getLogger()
    root.handlers[:] = [_Bridge()]
    root.setLevel(logging.WARNING)
    return log
