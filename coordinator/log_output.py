"""Where log lines go and how they look: stderr, readable on a terminal, one JSON object a line otherwise.

Rooms only call `structlog.get_logger(name)`; the command line calls `configure` once.
"""

from __future__ import annotations

import logging
import sys
from collections.abc import MutableMapping
from typing import Any, TextIO

from muster.coordinator.log_levels import LEVELS, ROOT

# structlog loads rich when it finds it (40 ms), to format tracebacks that are formatted plainly here
_hidden = "rich" not in sys.modules
if _hidden:
    sys.modules["rich"] = None  # type: ignore[assignment]  # what the import system takes for "not to be had"
import structlog  # noqa: E402  # only after rich is hidden

if _hidden:
    del sys.modules["rich"]

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

Event = MutableMapping[str, Any]


class _Lines:
    """Writes finished lines; `name` is that of the logger."""

    __slots__ = ("_stream", "name")

    def __init__(self, stream: TextIO, name: str) -> None:
        self._stream = stream
        self.name = name

    def msg(self, line: str) -> None:
        try:
            self._stream.write(line + "\n")
            self._stream.flush()
        except (OSError, ValueError):
            # whoever read the log has gone; that is no reason to stop serving
            pass

    debug = info = warning = error = critical = exception = msg


class _Bridge(logging.Handler):
    """Takes what libraries say through the standard library's logging into the same lines."""

    def emit(self, record: logging.LogRecord) -> None:
        structlog.get_logger(record.name).log(record.levelno, record.getMessage(), exc_info=record.exc_info)


def _add_logger(logger: _Lines, _method: str, event: Event) -> Event:
    event["logger"] = logger.name
    return event


def _printable(_logger: object, _method: str, event: Event) -> Event:
    """Text that clients chose may not move the cursor or start a line of its own."""
    for key, value in event.items():
        if isinstance(value, str) and not value.isprintable() and key not in ("exception", "stack"):
            event[key] = repr(value)
    return event


def _heeding_levels() -> type[Any]:
    """A logger that asks the table of levels for each line, so that a level may be changed while the server runs."""
    every: Any = structlog.make_filtering_bound_logger(logging.NOTSET)

    def heeding(name: str, number: int) -> Any:
        say = getattr(every, name)

        def method(self: Any, event: str, *args: Any, **values: Any) -> Any:
            return say(self, event, *args, **values) if number >= LEVELS.number(self._logger.name) else None

        return method

    def log(self: Any, number: int, event: str, *args: Any, **values: Any) -> Any:
        return every.log(self, number, event, *args, **values) if number >= LEVELS.number(self._logger.name) else None

    methods = {name: heeding(name, number) for name, number in _METHODS.items()}
    return type("HeedingLogger", (every,), {**methods, "log": log})


def configure(level: str, *, stream: TextIO | None = None, terminal: bool | None = None) -> None:
    """Send log lines of `level` (a key of OPTIONS) and above to `stream` (stderr when None).

    `terminal`: coloured, for people; None asks the stream.
    """
    out = sys.stderr if stream is None else stream
    readable = out.isatty() if terminal is None else terminal
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
        processors=[_add_logger, structlog.processors.add_log_level, _printable, *last],
        wrapper_class=_heeding_levels(),
        logger_factory=lambda name="muster", *_: _Lines(out, str(name)),
        cache_logger_on_first_use=True,
    )
    LEVELS.set(ROOT, OPTIONS[level])
    root = logging.getLogger()
    root.handlers[:] = [_Bridge()]
    root.setLevel(logging.WARNING)
