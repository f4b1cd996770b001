"""Equal values of many members, kept once: names, addresses, timeouts, metadata. Decides nothing."""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from typing import Any, Final, TypeVar

from muster.coordinator.groups.common.group import Protocols

_Value = TypeVar("_Value", bound=Hashable)

KEPT: Final = 10_000
"""Values kept at most. Then all are dropped, and members that join later share new ones."""
MAX_SHARED_LENGTH: Final = 1_024
"""Longer metadata and names are not shared: they would stay here after their last member is gone."""


class SharedValues:
    """`of(x)` returns the first value that was equal to `x`."""

    __slots__ = ("_known", "_moment")

    def __init__(self) -> None:
        self._moment = 0
        self._known: dict[Any, Any] = {}

    def of(self, value: _Value) -> _Value:
        """An equal value of the same type. There are no booleans and floats here."""
        known = self._known
        found: _Value | None = known.get(value)
        if found is not None:
            return found
        if isinstance(value, str) and len(value) > MAX_SHARED_LENGTH:
            return value
        if len(known) >= KEPT:
            known.clear()
        known[value] = value
        return value

    def known(self, value: _Value) -> _Value | None:
        """An equal value that is kept. None when no such value is kept."""
        found: _Value | None = self._known.get(value)
        return found

    def moment(self, wall_ms: int) -> int:
        """The present time: the same object for everything within one millisecond."""
        if wall_ms != self._moment:
            self._moment = wall_ms
        return self._moment

    def one_protocol(self, name: str, metadata: bytes) -> Protocols:
        """The `protocols` of a member with only its chosen protocol known. Most groups have one such value for all
        members.
        """
        offered = ((name, metadata),)
        # A hash of long metadata has to read all of it.
        known: Protocols | None = self._known.get(offered) if len(metadata) <= MAX_SHARED_LENGTH else None
        return self.protocols(offered) if known is None else known

    def protocols(self, offered: Iterable[tuple[str, bytes]]) -> Protocols:
        """The protocols that a member offers, in values that other members and its own protocols share."""
        of, given = self.of, tuple(offered)
        if sum([len(data) for _, data in given]) > MAX_SHARED_LENGTH:
            return tuple([(of(name), of(data) if len(data) <= MAX_SHARED_LENGTH else data) for name, data in given])
        known: Protocols | None = self._known.get(given)
        return of(tuple([(of(name), of(data)) for name, data in given])) if known is None else known
