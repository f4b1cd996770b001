"""Errors that no assertion sees: what event loops of any thread report to their exception handlers, and tracebacks in
the logs of servers under test. `tests/conftest.py` fails the test in which they happen. A test that causes such an
error on purpose takes it: `assert "…" in take()[0]`.
"""

from __future__ import annotations

import asyncio
import traceback
from pathlib import Path
from typing import Any, Final

_TRACEBACK: Final = b"Traceback (most recent call last)"
_SHOWN: Final = 4_000
"""The number of bytes of a log that are shown from its traceback on."""

_VIRTUAL: Final = "muster.virtual"
"""Worlds in virtual time have their own handlers: a process that dies raises an error through its loop, on purpose.
"""
_OF_CLIENTS: Final = "aiokafka"
"""A fenced client leaves its error in a future that it never reads. Muster raises no such error."""

_reported: list[str] = []
_logs: dict[Path, int] = {}
"""The logs of started servers, and the number of their bytes that were searched."""
_ended: set[Path] = set()
"""The logs of servers that have ended since the last search."""


def watch_event_loops() -> None:
    """Record what any event loop of this process reports from now on. Existing handlers are still called."""
    kinds: list[Any] = [asyncio.BaseEventLoop]
    try:
        import uvloop
    except ImportError:
        pass
    else:
        kinds.append(uvloop.Loop)
    for kind in kinds:
        kind.call_exception_handler = _noting(kind.call_exception_handler)


def watch_log(path: Path) -> None:
    """Search what a server writes into this file from now on for tracebacks."""
    _ended.discard(path)
    _logs[path] = path.stat().st_size if path.exists() else 0


def end_log(path: Path) -> None:
    """Search a log for the last time when the test ends: its server has ended."""
    _ended.add(path)


def note(text: str) -> None:
    """Record an error that was seen elsewhere."""
    _reported.append(text)


def take() -> list[str]:
    """The errors found since the last call, as text."""
    found = _reported[:]
    del _reported[: len(found)]
    for path, seen in list(_logs.items()):
        if not path.exists():
            del _logs[path]
        elif path.stat().st_size != seen:
            found += _tracebacks(path, seen)
    for path in _ended:
        _logs.pop(path, None)
    _ended.clear()
    return found


def _noting(report: Any) -> Any:
    def call_exception_handler(loop: Any, context: dict[str, Any]) -> None:
        error = context.get("exception")
        if type(loop).__module__.startswith(_VIRTUAL):
            report(loop, context)
            return
        if "never retrieved" in str(context.get("message")) and type(error).__module__.startswith(_OF_CLIENTS):
            report(loop, context)
            return
        text = "" if error is None else "".join(traceback.format_exception(error))
        about = {name: value for name, value in context.items() if name not in ("message", "exception")}
        _reported.append(f"an event loop reported: {context.get('message')} {about}\n{text}")
        report(loop, context)

    return call_exception_handler


def _tracebacks(path: Path, seen: int) -> list[str]:
    with path.open("rb") as log:
        log.seek(seen)
        data = log.read()
    _logs[path] = seen + len(data)
    start = data.find(_TRACEBACK)
    if start < 0:
        return []
    line = data.rfind(b"\n", 0, start) + 1
    return [f"{path} has a traceback:\n{data[line : start + _SHOWN].decode(errors='replace')}"]
