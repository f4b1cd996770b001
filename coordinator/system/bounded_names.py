"""A cache by names that clients choose, bounded by number and by bytes, because a name may have 32 KB."""

from __future__ import annotations

from typing import TypeVar

_K = TypeVar("_K")
_V = TypeVar("_V")


class BoundedNames(dict[_K, _V]):
    """A dictionary that `keep` fills, and that is cleared when it becomes too large."""

    __slots__ = ("_bytes", "_most", "_most_bytes")

    def __init__(self, most: int, most_bytes: int) -> None:
        """At most `most` entries, with `most_bytes` bytes of names together."""
        super().__init__()
        self._most = most
        self._most_bytes = most_bytes
        self._bytes = 0

    def keep(self, key: _K, value: _V, size: int) -> None:
        """Remember a new entry, whose name has `size` bytes."""
        self._bytes += size
        if len(self) >= self._most or self._bytes > self._most_bytes:
            self.clear()
            self._bytes = size
        self[key] = value
