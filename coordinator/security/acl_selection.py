"""Selects, from the same entries, those of each of many filters. The entries are sorted once for each set of fields
that filters name. After that they are looked up. Pure.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable
from operator import itemgetter
from typing import Any, Final

from muster.coordinator.security.acls import ANY, LITERAL, MATCH, PREFIXED, WILDCARD, Acl, AclFilter

AT_ONCE: Final = 200
"""One step handles so many entries and names."""
MAX_TABLES: Final = 8
"""So many sets of fields are remembered: some 5 MB each for 20,000 entries."""
_FIELDS: Final = len(Acl._fields)
_NAME, _PATTERN = Acl._fields.index("resource_name"), Acl._fields.index("pattern_type")
_TEXTS: Final = frozenset(Acl._fields.index(name) for name in ("resource_name", "principal", "host"))
_Table = dict[Any, list[Acl]]


class AclSelection:
    """The entries at one point in time."""

    def __init__(self, acls: Iterable[Acl]) -> None:
        self._acls = list(acls)
        self._tables: dict[tuple[int, ...], _Table] = {}
        self._lengths: list[int] | None = None
        """The lengths of prefixed names."""

    def select(self, wanted: AclFilter) -> Generator[None, None, list[Acl]]:
        """The entries that the filter selects. The filter must have known codes. Yields where the job may be
        interrupted.
        """
        name = wanted.resource_name
        if wanted.pattern_type == MATCH and name is None:
            wanted = wanted._replace(pattern_type=ANY)
        fields = tuple(at for at in range(_FIELDS) if wanted[at] is not None and (at in _TEXTS or wanted[at] != ANY))
        table = self._tables.get(fields)
        if table is None:
            if len(self._tables) >= MAX_TABLES:
                del self._tables[next(iter(self._tables))]
            table = self._tables[fields] = yield from self._sorted(fields)
        if wanted.pattern_type != MATCH or name is None:
            return list(table.get(_key(wanted, fields), ()))
        found: list[Acl] = []
        for number, (pattern, text) in enumerate((yield from self._concerning(name))):
            one = wanted._replace(pattern_type=pattern, resource_name=text)
            found += table.get(_key(one, fields), ())
            if not number % AT_ONCE:
                yield
        return found

    def _sorted(self, fields: tuple[int, ...]) -> Generator[None, None, _Table]:
        table: _Table = {}
        get = itemgetter(*fields) if fields else _nothing
        for number, acl in enumerate(self._acls):
            table.setdefault(get(acl), []).append(acl)
            if not number % AT_ONCE:
                yield
        return table

    def _concerning(self, name: str) -> Generator[None, None, dict[tuple[int, str], None]]:
        """The patterns that match a resource, by pattern type and name."""
        if self._lengths is None:
            prefixes = yield from self._sorted((_PATTERN, _NAME))
            self._lengths = sorted({len(text) for pattern, text in prefixes if pattern == PREFIXED})
        found = {(LITERAL, name): None, (LITERAL, WILDCARD): None}
        for length in self._lengths:
            if length > len(name):
                break
            found[PREFIXED, name[:length]] = None
        return found


def _key(wanted: AclFilter, fields: tuple[int, ...]) -> Any:
    return itemgetter(*fields)(wanted) if fields else _nothing(wanted)


def _nothing(_: object) -> tuple[()]:
    return ()
