"""Sends answers whose records are parts of files (`log.FilePart`): as much as a socket takes now, then copies.

What the socket does not take is read from the file at once. Files may be removed before a slow client reads.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from os import writev
from typing import Any

from muster.coordinator.log import FilePart

Parts = Sequence[bytes | memoryview]


def are_in(parts: Iterable[Any]) -> bool:
    """Whether a part of a file is among the parts of an answer."""
    return any(type(part) is FilePart for part in parts)


def copied(parts: Iterable[Any], start: int = 0) -> list[bytes | memoryview]:
    """The bytes of an answer from `start` on, with parts of files as copies. Raises OSError."""
    rest: list[bytes | memoryview] = []
    for part in parts:
        size = len(part)
        if start >= size:
            start -= size
            continue
        if type(part) is FilePart:
            rest.append(part.copied(start))
        else:
            rest.append(memoryview(part)[start:] if start else part)
        start = 0
    return rest


def written(descriptor: int, parts: Iterable[Any]) -> list[bytes | memoryview]:
    """Write what a socket without unsent bytes takes now. Returns the rest, as `copied` does. Raises OSError."""
    views = [part.view if type(part) is FilePart else part for part in parts]
    try:
        count = writev(descriptor, views)
    except BlockingIOError:
        count = 0
    return copied(parts, count)
