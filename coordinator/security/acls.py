"""Access control lists: an entry, a filter of entries, and the entries that match a resource (KIP-11, KIP-290).

Pure. Codes are Kafka's (AclOperation, AclPermissionType, ResourceType, PatternType). Names are as in Kafka's metadata
log.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple

from muster.coordinator.security.authorizer import Operation
from muster.protocol.messages.metadata_records.access_control_entry_record import AccessControlEntryRecord

UNKNOWN: Final = 0
"""In each kind of code: a code that is not known."""
ANY: Final = 1
"""In each kind of code, in a filter: every code matches."""
ALL: Final = 2
"""The operation that means all operations."""
MATCH: Final = 2
"""The pattern type of a filter that selects all entries that match a resource of its name."""
LITERAL, PREFIXED = 3, 4
DENY, ALLOW = 2, 3
WILDCARD: Final = "*"
"""A literal name that matches all resources of its type, and a host that matches all hosts."""
EVERYBODY: Final = "User:*"

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
    """One entry (StandardAcl). It is not validated: a log may have entries that this server would have refused."""

    resource_type: int
    resource_name: str
    pattern_type: int
    principal: str
    host: str
    operation: int
    permission_type: int

    def says(self, operation: int) -> bool:
        """Whether the entry applies to this operation. Its resource, principal and host are known to match.

        An allowed operation implies others; a denied one does not.
        """
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
    return Acl(
        record.resource_type,
        record.resource_name,
        record.pattern_type,
        record.principal,
        record.host,
        record.operation,
        record.permission_type,
    )


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
        """Whether Kafka does not know its codes of a resource."""
        return not (
            (self.resource_type == ANY or self.resource_type in RESOURCE_TYPES)
            and (self.pattern_type in (ANY, MATCH) or self.pattern_type in PATTERN_TYPES)
        )

    @property
    def is_unknown_entry(self) -> bool:
        """Whether Kafka does not know its operation or permission."""
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


Whom = tuple[str, str]
"""A principal and a host."""
ByWhom = dict[Whom, dict[Acl, None]]


class _OfType:
    """The entries for one type of resource, by name, principal and host. So a look-up reads few entries, however many
    exist.
    """

    __slots__ = ("lengths", "literal", "prefixed")

    def __init__(self) -> None:
        self.literal: dict[str, ByWhom] = {}
        self.prefixed: dict[str, ByWhom] = {}
        self.lengths: dict[int, int] = {}
        """Length -> how many prefixes have it."""

    def _named(self, acl: Acl) -> dict[str, ByWhom]:
        return self.prefixed if acl.pattern_type == PREFIXED else self.literal

    def add(self, acl: Acl) -> None:
        named = self._named(acl)
        found = named.get(acl.resource_name)
        if found is None:
            found = named[acl.resource_name] = {}
            if named is self.prefixed:
                length = len(acl.resource_name)
                self.lengths[length] = self.lengths.get(length, 0) + 1
        found.setdefault((acl.principal, acl.host), {})[acl] = None

    def remove(self, acl: Acl) -> None:
        named = self._named(acl)
        found = named[acl.resource_name]
        whom = acl.principal, acl.host
        of_whom = found[whom]
        del of_whom[acl]
        if of_whom:
            return
        del found[whom]
        if found:
            return
        del named[acl.resource_name]
        if named is self.prefixed:
            length = len(acl.resource_name)
            self.lengths[length] -= 1
            if not self.lengths[length]:
                del self.lengths[length]

    def concerning(self, name: str) -> Iterator[ByWhom]:
        """The entries for this name, for all names, and for prefixes of this name."""
        literal = self.literal
        found = literal.get(name)
        if found:
            yield found
        found = literal.get(WILDCARD) if name != WILDCARD else None
        if found:
            yield found
        if self.lengths:
            prefixed, most = self.prefixed, len(name)
            for length in self.lengths:
                found = prefixed.get(name[:length]) if length <= most else None
                if found:
                    yield found


class Ruling(NamedTuple):
    """The result of a look-up. `acl`: the entry that decides; None means that no entry matches. `is_open`: the resource
    has no entries at all.
    """

    acl: Acl | None
    is_open: bool


class AclRules:
    """A set of entries, which finds the entry that decides. An entry with two ids is in the set once."""

    __slots__ = ("_of_type", "by_id", "ids")

    def __init__(self) -> None:
        self.by_id: dict[bytes, Acl] = {}
        self.ids: dict[Acl, dict[bytes, None]] = {}
        """The ids of each entry. Only a log of another writer has several ids for one entry."""
        self._of_type: dict[int, _OfType] = {}

    def add(self, acl_id: bytes, acl: Acl) -> None:
        """Add an entry. It replaces the entry that had this id."""
        self.remove(acl_id)
        self.by_id[acl_id] = acl
        ids = self.ids.setdefault(acl, {})
        if not ids:
            self._of_type.setdefault(acl.resource_type, _OfType()).add(acl)
        ids[acl_id] = None

    def remove(self, acl_id: bytes) -> None:
        """Remove the entry of this id, if it exists."""
        acl = self.by_id.pop(acl_id, None)
        if acl is None:
            return
        ids = self.ids[acl]
        del ids[acl_id]
        if not ids:
            del self.ids[acl]
            self._of_type[acl.resource_type].remove(acl)

    def ruling(self, principal: str, host: str, operation: int, resource_type: int, name: str) -> Ruling:
        """What decides whether a principal may do this. An entry that denies precedes every entry that allows."""
        allowed, is_open = None, True
        of_type = self._of_type.get(resource_type)
        if of_type is not None:
            whom = _whom(principal, host)
            for by_whom in of_type.concerning(name):
                is_open = False
                for one in whom:
                    for acl in by_whom.get(one, ()):
                        if acl.says(operation):
                            if acl.permission_type != ALLOW:
                                return Ruling(acl, False)
                            allowed = acl
        return Ruling(allowed, is_open)

    def candidates(self, wanted: AclFilter) -> Iterable[Acl]:
        """All entries that a filter may select. They are few if the filter names one resource."""
        kind, name, pattern = wanted.resource_type, wanted.resource_name, wanted.pattern_type
        if kind == ANY or name is None or pattern not in PATTERN_TYPES:
            return list(self.ids)
        of_type = self._of_type.get(kind)
        if of_type is None:
            return ()
        named = of_type.prefixed if pattern == PREFIXED else of_type.literal
        return [acl for acls in named.get(name, {}).values() for acl in acls]

    def allows_some(self, principal: str, host: str, operation: int, resource_type: int) -> bool:
        """Whether entries allow a resource of this type and none denies it (Authorizer.authorizeByResourceType).

        As on Kafka no operation implies another one here.
        """
        refused: dict[int, set[str]] = {LITERAL: set(), PREFIXED: set()}
        allowed: list[Acl] = []
        for acl in self._said_to(principal, host, operation, resource_type):
            if acl.permission_type == ALLOW:
                allowed.append(acl)
            elif acl.pattern_type == LITERAL and acl.resource_name == WILDCARD:
                return False
            elif acl.pattern_type in refused:
                refused[acl.pattern_type].add(acl.resource_name)
        prefixes = _shortest(refused[PREFIXED])
        return any(_is_open_to(acl, refused[LITERAL], prefixes) for acl in allowed)

    def _said_to(self, principal: str, host: str, operation: int, resource_type: int) -> Iterator[Acl]:
        of_type = self._of_type.get(resource_type)
        if of_type is None:
            return
        for named in (of_type.literal, of_type.prefixed):
            for by_whom in named.values():
                for one in dict.fromkeys(_whom(principal, host)):
                    for acl in by_whom.get(one, ()):
                        if acl.operation in (operation, ALL):
                            yield acl


def _whom(principal: str, host: str) -> tuple[Whom, Whom, Whom, Whom]:
    """The principals and hosts of all entries that apply to a client."""
    return (principal, host), (principal, WILDCARD), (EVERYBODY, host), (EVERYBODY, WILDCARD)


def _shortest(prefixes: Iterable[str]) -> list[str]:
    """The prefixes that do not begin with another one, in order. They cover the same names."""
    found: list[str] = []
    for one in sorted(prefixes):
        if not found or not one.startswith(found[-1]):
            found.append(one)
    return found


def _is_open_to(acl: Acl, literals: set[str], prefixes: list[str]) -> bool:
    """Whether no denial covers all that an entry allows. `prefixes`: see `_shortest`."""
    name = acl.resource_name
    if acl.pattern_type == LITERAL and name == WILDCARD:
        return True
    if acl.pattern_type == LITERAL and name in literals:
        return False
    # a prefix of the name, if one exists, is the last prefix that does not sort behind the name
    at = bisect_right(prefixes, name)
    return not (at and name.startswith(prefixes[at - 1]))
