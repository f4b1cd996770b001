"""A cache of names that clients choose, with limits of entries and bytes."""

from __future__ import annotations

from typing import TypeVar

K = TypeVar("K")
V = TypeVar("V")


class BoundedNames(dict[K, V]):
    """A dictionary that `keep` fills, and that is cleared when it becomes too large."""

    __slots__ = ("_bytes", "_max_bytes", "_max_entries")

    def __init__(self, max_entries: int, max_bytes: int) -> None:
        """`max_bytes`: of all names together."""
        super().__init__()
        self._max_entries = max_entries
        self._max_bytes = max_bytes
        self._bytes = 0

    def keep(self, key: K, value: V, size: int) -> None:
        """Remember a new entry, whose name has `size` bytes."""
        self._bytes += size
        if len(self) >= self._max_entries or self._bytes > self._max_bytes:
            self.clear()
            self._bytes = size
        self[key] = value
