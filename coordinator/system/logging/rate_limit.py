"""Limits repeated log lines: a client that is refused again and again must not fill a disk.

Lines of one cause have the same logger, text, subject and reason, without the numbers in the reason. In a window,
`MAX_OF_A_CAUSE` lines of a cause are logged, and `MAX_OF_A_KIND` of a text. Further lines are counted, and one line for
each cause gives their number. Lines about a file or a partition have no limit by kind, and debug lines have no limit.
Any thread may call the limiter.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, MutableMapping
from typing import Any, Final

import structlog

WINDOW_MS: Final = 10_000
MAX_OF_A_CAUSE: Final = 20
MAX_OF_A_KIND: Final = 200
MAX_CAUSES: Final = 10
"""The most causes of a kind that get a line each at the end of the window. Further causes share one line."""
ALIKE: Final = 200
"""How many characters of a subject or a reason are compared."""
MAX_KINDS: Final = 1_000
"""The most kinds of lines that are counted separately: libraries may log any number of kinds."""
CAUSE: Final = ("group", "partition", "path", "topic", "api")
"""The fields with the subject of a line."""
WHY: Final = ("why", "error", "reason", "what")
"""The fields with a reason in words, whose numbers may differ each time."""
SUMMARY: Final = "_summary"
"""A field of lines that this module makes: they are not counted."""
_NUMBER: Final = re.compile(r"[0-9]+")

Event = MutableMapping[str, Any]


class _Count:
    __slots__ = ("example", "left_out", "logged")

    def __init__(self) -> None:
        self.logged = self.left_out = 0
        self.example: dict[str, Any] = {}


class _Kind:
    __slots__ = ("began_ms", "causes", "logged", "others")

    def __init__(self, now_ms: int) -> None:
        self.began_ms = now_ms
        self.logged = 0
        self.causes: dict[tuple[str, ...], _Count] = {}
        self.others = _Count()


class Limiter:
    """A processor of structlog, behind the processors that add logger and level."""

    def __init__(self, mono_ms: Callable[[], int], left_out: Callable[[], object]) -> None:
        """`left_out` is called when the first line of a window was dropped: `due` will have lines."""
        self._mono_ms = mono_ms
        self._left_out = left_out
        self._lock = threading.Lock()
        self._kinds: dict[tuple[str, str], _Kind] = {}
        self._is_quiet = True

    def __call__(self, _logger: object, _method: str, event: Event) -> Event:
        """Return the line, if it may be logged. Raises structlog's DropEvent otherwise."""
        if event.pop(SUMMARY, False) or event["level"] == "debug":
            return event
        with self._lock:
            if self._may_log(event):
                return event
            was_quiet, self._is_quiet = self._is_quiet, False
        if was_quiet:
            self._left_out()
        raise structlog.DropEvent

    def due(self, *, all_of_them: bool = False) -> tuple[list[dict[str, Any]], float | None]:
        """Return lines about dropped lines of ended (or all) windows, and the seconds until the next call, or None."""
        lines: list[dict[str, Any]] = []
        now_ms = self._mono_ms()
        next_ms: int | None = None
        with self._lock:
            for key, kind in list(self._kinds.items()):
                over_ms = kind.began_ms + WINDOW_MS
                if all_of_them or now_ms >= over_ms:
                    lines += _summary(kind, now_ms)
                    del self._kinds[key]
                elif _left_out(kind):
                    next_ms = over_ms if next_ms is None else min(next_ms, over_ms)
            self._is_quiet = next_ms is None
        return lines, None if next_ms is None else (next_ms - now_ms) / 1000

    def _may_log(self, event: Event) -> bool:
        """Whether a line may be logged. If not, the line is counted."""
        kind = self._kind(event)
        cause = tuple([str(event.get(name))[:ALIKE] for name in CAUSE] + [_alike(event.get(name)) for name in WHY])
        count = kind.causes.get(cause)
        is_own = "path" in event or "partition" in event
        if (is_own or kind.logged < MAX_OF_A_KIND) and (count is None or count.logged < MAX_OF_A_CAUSE):
            if count is None:
                count = kind.causes[cause] = _Count()
            kind.logged += not is_own
            count.logged += 1
            return True
        if count is None:
            count = kind.others
        count.left_out += 1
        count.example = dict(event)
        return False

    def _kind(self, event: Event) -> _Kind:
        now_ms = self._mono_ms()
        key = (event["logger"], event["event"])
        kind = self._kinds.get(key)
        if kind is not None and (now_ms - kind.began_ms < WINDOW_MS or _left_out(kind)):
            return kind
        if kind is None and len(self._kinds) >= MAX_KINDS:
            self._kinds = {key: one for key, one in self._kinds.items() if _left_out(one)}
            if len(self._kinds) >= MAX_KINDS:
                key = ("", "")
                if key in self._kinds:
                    return self._kinds[key]
        kind = self._kinds[key] = _Kind(now_ms)
        return kind


def _left_out(kind: _Kind) -> bool:
    return kind.others.left_out > 0 or any(one.left_out for one in kind.causes.values())


def _summary(kind: _Kind, now_ms: int) -> list[dict[str, Any]]:
    seconds = max(round((now_ms - kind.began_ms) / 1000), 1)
    counts = sorted((one for one in kind.causes.values() if one.left_out), key=lambda one: -one.left_out)
    lines = [_line(one.example, one.left_out, seconds) for one in counts[:MAX_CAUSES]]
    rest = kind.others.left_out + sum(one.left_out for one in counts[MAX_CAUSES:])
    if rest:
        example = kind.others.example or counts[MAX_CAUSES].example
        lines.append(_line({name: example[name] for name in ("event", "level", "logger")}, rest, seconds))
    return lines


def _line(example: dict[str, Any], left_out: int, seconds: int) -> dict[str, Any]:
    text = f"{example['event']} … and {left_out} more of these in the last {seconds} seconds"
    known = {name: example[name] for name in ("level", "logger", *CAUSE, *WHY) if name in example}
    return known | {"event": text, "more": left_out, "seconds": seconds}


def _alike(value: object) -> str:
    return _NUMBER.sub("#", str(value)[:ALIKE])
