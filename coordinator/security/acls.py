"""Access control lists: one entry, what selects entries, and which entries concern a resource (KIP-11, KIP-290).

Pure. Codes are Kafka's (AclOperation, AclPermissionType, ResourceType, PatternType), names as in its metadata log.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple

from muster.coordinator.security.authorizer import Operation
from muster.protocol.messages.metadata_records.access_control_entry_record import AccessControlEntryRecord

UNKNOWN: Final = 0
"""Of each kind of code: none that is known."""
ANY: Final = 1
"""Of each kind of code, in a filter: whatever it is."""
ALL: Final = 2
"""The operation that stands for all of them."""
MATCH: Final = 2
"""The pattern type of a filter that selects all that concerns a resource of its name."""
LITERAL, PREFIXED = 3, 4
DENY, ALLOW = 2, 3
WILDCARD: Final = "*"
"""A literal name that stands for all resources of its type; a host that stands for all."""
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
"""Operations by what is allowed beside them (StandardAuthorizerData.IMPLIES_DESCRIBE, IMPLIES_DESCRIBE_CONFIGS)."""


class Acl(NamedTuple):
    """One entry (StandardAcl). Nothing is checked: a log may hold what this server would have refused."""

    resource_type: int
    resource_name: str
    pattern_type: int
    principal: str
    host: str
    operation: int
    permission_type: int

    def says(self, operation: int) -> bool:
        """Does the entry say something of this operation? Its resource, principal and host are known to fit.

        Allowed operations imply others; refused ones do not.
        """
        if self.operation in (operation, ALL):
            return True
        return self.permission_type == ALLOW and self.operation in _IMPLIES.get(operation, ())

    def __str__(self) -> str:
        """As Kafka's audit lines have it."""
        return (
            f"StandardAcl(resourceType={RESOURCE_TYPES.get(self.resource_type, 'UNKNOWN')}, "
            f"resourceName={self.resource_name}, patternType={PATTERN_TYPES.get(self.pattern_type, 'UNKNOWN')}, "
            f"principal={self.principal}, host={self.host}, "
            f"operation={OPERATIONS.get(self.operation, 'UNKNOWN')}, "
            f"permissionType={PERMISSIONS.get(self.permission_type, 'UNKNOWN')})"
        )


def of_record(record: AccessControlEntryRecord) -> Acl:
    """The entry that a record of the metadata log tells of."""
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
    """The record of the metadata log that tells of a new entry; `acl_id`: 16 bytes that no other one has."""
    return AccessControlEntryRecord(acl_id, *acl)


class AclFilter(NamedTuple):
    """Selects entries (AclBindingFilter): None and `ANY` stand for everything."""

    resource_type: int
    resource_name: str | None
    pattern_type: int
    principal: str | None
    host: str | None
    operation: int
    permission_type: int

    @property
    def is_unknown_pattern(self) -> bool:
        """Its codes of a resource are none that Kafka knows."""
        return not (
            (self.resource_type == ANY or self.resource_type in RESOURCE_TYPES)
            and (self.pattern_type in (ANY, MATCH) or self.pattern_type in PATTERN_TYPES)
        )

    @property
    def is_unknown_entry(self) -> bool:
        """Its operation or permission is none that Kafka knows."""
        return not (
            (self.operation == ANY or self.operation in OPERATIONS)
            and (self.permission_type == ANY or self.permission_type in PERMISSIONS)
        )

    def selects(self, acl: Acl) -> bool:
        """Whether this is one of those."""
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
    """The entries for one type of resource, by name, principal and host: however many there are, few are looked at."""

    __slots__ = ("lengths", "literal", "prefixed")

    def __init__(self) -> None:
        self.literal: dict[str, ByWhom] = {}
        self.prefixed: dict[str, ByWhom] = {}
        self.lengths: dict[int, int] = {}
        """Of the prefixes: how many have this length."""

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
        """What there is for this name, for all names, and for names that begin as it does."""
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
    """What entries say of a question: `acl` decides; None: none of those that there are fits. `is_open`: there are none
    at all for the resource.
    """

    acl: Acl | None
    is_open: bool


class AclRules:
    """A set of entries, to be asked which one decides. An entry that is there twice, under two ids, is there once."""

    __slots__ = ("_of_type", "by_id", "ids")

    def __init__(self) -> None:
        self.by_id: dict[bytes, Acl] = {}
        self.ids: dict[Acl, dict[bytes, None]] = {}
        """The ids of each entry; one but in a log that another wrote."""
        self._of_type: dict[int, _OfType] = {}

    def add(self, acl_id: bytes, acl: Acl) -> None:
        """Take in an entry; one that had this id goes."""
        self.remove(acl_id)
        self.by_id[acl_id] = acl
        ids = self.ids.setdefault(acl, {})
        if not ids:
            self._of_type.setdefault(acl.resource_type, _OfType()).add(acl)
        ids[acl_id] = None

    def remove(self, acl_id: bytes) -> None:
        """Drop the entry of this id, if there is one."""
        acl = self.by_id.pop(acl_id, None)
        if acl is None:
            return
        ids = self.ids[acl]
        del ids[acl_id]
        if not ids:
            del self.ids[acl]
            self._of_type[acl.resource_type].remove(acl)

    def ruling(self, principal: str, host: str, operation: int, resource_type: int, name: str) -> Ruling:
        """What decides whether a principal may do this: an entry that refuses before any that allows."""
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
        """All that a filter may select: few where it names one resource."""
        kind, name, pattern = wanted.resource_type, wanted.resource_name, wanted.pattern_type
        if kind == ANY or name is None or pattern not in PATTERN_TYPES:
            return list(self.ids)
        of_type = self._of_type.get(kind)
        if of_type is None:
            return ()
        named = of_type.prefixed if pattern == PREFIXED else of_type.literal
        return [acl for acls in named.get(name, {}).values() for acl in acls]

    def allows_some(self, principal: str, host: str, operation: int, resource_type: int) -> bool:
        """Is there a resource of this type that entries allow and none refuses? (Authorizer.authorizeByResourceType.)

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
    """What entries that concern a client may be for."""
    return (principal, host), (principal, WILDCARD), (EVERYBODY, host), (EVERYBODY, WILDCARD)


def _shortest(prefixes: Iterable[str]) -> list[str]:
    """Those that begin with none of the others, in order: they cover the same names."""
    found: list[str] = []
    for one in sorted(prefixes):
        if not found or not one.startswith(found[-1]):
            found.append(one)
    return found


def _is_open_to(acl: Acl, literals: set[str], prefixes: list[str]) -> bool:
    """Whether no refusal covers all that an entry allows. `prefixes`: see `_shortest`."""
    name = acl.resource_name
    if acl.pattern_type == LITERAL and name == WILDCARD:
        return True
    if acl.pattern_type == LITERAL and name in literals:
        return False
    # of those, the one that a name begins with is the last that is not behind it
    at = bisect_right(prefixes, name)
    return not (at and name.startswith(prefixes[at - 1]))
