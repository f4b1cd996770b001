"""Access control lists: an entry, a filter of entries, and the entries that filters select (KIP-11, KIP-290).

Pure. Codes are Kafka's (AclOperation, AclPermissionType, ResourceType, PatternType).
"""

from __future__ import annotations

from collections.abc import Generator, Iterable
from operator import itemgetter
from typing import Any, Final, NamedTuple

from muster.coordinator.security.authorizer import Operation
from muster.protocol.messages.metadata_records.access_control_entry_record import AccessControlEntryRecord

UNKNOWN: Final = 0
"""The unknown code, in each kind of codes."""
ANY: Final = 1
"""The code of a filter that every code matches, in each kind of codes."""
ALL: Final = 2
"""The operation that means all operations."""
MATCH: Final = 2
"""The pattern type of a filter that selects all entries that match a resource of its name."""
LITERAL, PREFIXED = 3, 4
DENY, ALLOW = 2, 3
WILDCARD: Final = "*"
"""A literal name that matches all resources of its type, and a host that matches all hosts."""

RESOURCE_TYPES: Final = {2: "TOPIC", 3: "GROUP", 4: "CLUSTER", 5: "TRANSACTIONAL_ID", 6: "DELEGATION_TOKEN", 7: "USER"}
PATTERN_TYPES: Final = {LITERAL: "LITERAL", PREFIXED: "PREFIXED"}
OPERATIONS: Final = {
    ALL: "ALL", 3: "READ", 4: "WRITE", 5: "CREATE", 6: "DELETE", 7: "ALTER", 8: "DESCRIBE", 9: "CLUSTER_ACTION",
    10: "DESCRIBE_CONFIGS", 11: "ALTER_CONFIGS", 12: "IDEMPOTENT_WRITE", 13: "CREATE_TOKENS", 14: "DESCRIBE_TOKENS",
    15: "TWO_PHASE_COMMIT",
}  # fmt: skip
PERMISSIONS: Final = {DENY: "DENY", ALLOW: "ALLOW"}

_IMPLIES: Final = {
    Operation.DESCRIBE: {Operation.READ, Operation.WRITE, Operation.DELETE, Operation.ALTER},
    Operation.DESCRIBE_CONFIGS: {Operation.ALTER_CONFIGS},
}
"""Operation -> operations that imply it (StandardAuthorizerData.IMPLIES_DESCRIBE, IMPLIES_DESCRIBE_CONFIGS)."""


class Acl(NamedTuple):
    """One entry (StandardAcl). Entries are not validated: a log may have entries that this server would refuse."""

    resource_type: int
    resource_name: str
    pattern_type: int
    principal: str
    host: str
    operation: int
    permission_type: int

    def applies_to(self, operation: int) -> bool:
        """Whether an entry whose resource, principal and host match applies to this operation."""
        if self.operation in (operation, ALL):
            return True
        return self.permission_type == ALLOW and self.operation in _IMPLIES.get(operation, ())

    def __str__(self) -> str:
        """The entry in the form of Kafka's audit lines."""
        return (
            f"StandardAcl(resourceType={RESOURCE_TYPES.get(self.resource_type, 'UNKNOWN')}, "
            f"resourceName={self.resource_name}, patternType={PATTERN_TYPES.get(self.pattern_type, 'UNKNOWN')}, "
            f"principal={self.principal}, host={self.host}, "
            f"operation={OPERATIONS.get(self.operation, 'UNKNOWN')}, "
            f"permissionType={PERMISSIONS.get(self.permission_type, 'UNKNOWN')})"
        )


def of_record(record: AccessControlEntryRecord) -> Acl:
    """The entry of a record of the metadata log."""
    return Acl(*[getattr(record, field) for field in Acl._fields])


def to_record(acl: Acl, acl_id: bytes) -> AccessControlEntryRecord:
    """The record of a new entry in the metadata log. `acl_id`: 16 bytes that are unique."""
    return AccessControlEntryRecord(acl_id, *acl)


class AclFilter(NamedTuple):
    """Selects entries (AclBindingFilter). None and `ANY` match everything."""

    resource_type: int
    resource_name: str | None
    pattern_type: int
    principal: str | None
    host: str | None
    operation: int
    permission_type: int

    @property
    def is_unknown_pattern(self) -> bool:
        """Whether Kafka does not know the filter's codes of a resource."""
        return not (
            (self.resource_type == ANY or self.resource_type in RESOURCE_TYPES)
            and (self.pattern_type in (ANY, MATCH) or self.pattern_type in PATTERN_TYPES)
        )

    @property
    def is_unknown_entry(self) -> bool:
        """Whether Kafka does not know the filter's operation or permission."""
        return not (
            (self.operation == ANY or self.operation in OPERATIONS)
            and (self.permission_type == ANY or self.permission_type in PERMISSIONS)
        )

    def selects(self, acl: Acl) -> bool:
        """Whether the filter selects this entry."""
        return (
            self.resource_type in (ANY, acl.resource_type)
            and self._selects_name(acl)
            and self.principal in (None, acl.principal)
            and self.host in (None, acl.host)
            and self.operation in (ANY, acl.operation)
            and self.permission_type in (ANY, acl.permission_type)
        )

    def _selects_name(self, acl: Acl) -> bool:
        if self.pattern_type not in (ANY, MATCH, acl.pattern_type):
            return False
        wanted = self.resource_name
        if wanted is None:
            return True
        if self.pattern_type != MATCH:
            return wanted == acl.resource_name
        if acl.pattern_type == PREFIXED:
            return wanted.startswith(acl.resource_name)
        return acl.pattern_type == LITERAL and acl.resource_name in (wanted, WILDCARD)


AT_ONCE: Final = 200
"""The most entries and names that one step handles."""
MAX_TABLES: Final = 8
"""The most sets of fields that are remembered: some 5 MB each for 20,000 entries."""
_FIELDS: Final = len(Acl._fields)
_NAME, _PATTERN = Acl._fields.index("resource_name"), Acl._fields.index("pattern_type")
_TEXTS: Final = frozenset(Acl._fields.index(name) for name in ("resource_name", "principal", "host"))
_Table = dict[Any, list[Acl]]


class AclSelection:
    """The entries at one point in time, sorted once for each set of fields that filters name."""

    def __init__(self, acls: Iterable[Acl]) -> None:
        self._acls = list(acls)
        self._tables: dict[tuple[int, ...], _Table] = {}
        self._lengths: list[int] | None = None

    def select(self, wanted: AclFilter) -> Generator[None, None, list[Acl]]:
        """The entries that a filter with known codes selects. Yields where the job may be interrupted."""
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
