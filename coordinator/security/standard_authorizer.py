"""Kafka's StandardAuthorizer: permissions by the access control entries of the metadata log.

Pure. The authorizer gets each new and each deleted entry, and keeps its answers until an entry changes.
"""

from __future__ import annotations

import ipaddress
from bisect import bisect_right
from collections.abc import Callable, Container, Iterable, Iterator
from typing import Final, NamedTuple

from muster.coordinator.security.acls import (
    ALL,
    ALLOW,
    ANY,
    LITERAL,
    PATTERN_TYPES,
    PREFIXED,
    WILDCARD,
    Acl,
    AclFilter,
    of_record,
)
from muster.coordinator.security.authorizer import KafkaPrincipal, Requester
from muster.coordinator.security.cidr import Range, Ranges, range_of
from muster.protocol.message import Message
from muster.protocol.messages.metadata_records.access_control_entry_record import AccessControlEntryRecord
from muster.protocol.messages.metadata_records.remove_access_control_entry_record import RemoveAccessControlEntryRecord

MAX_KEPT: Final = 100_000
"""The most answers that are kept, some 30 MB: clients choose the names. Beyond this number, all answers are dropped."""
_ANY_NAME: Final = "hardcode"
"""The resource name that Kafka uses to find out whether a client may do everything."""


EVERYBODY: Final = "User:*"
Whom = tuple[str, str | Range]
"""A principal, and a host or a range of hosts."""
ByWhom = dict[Whom, dict[Acl, None]]


class _OfType:
    """The entries for one type of resource, by name, principal and host."""

    __slots__ = ("lengths", "literal", "prefixed")

    def __init__(self) -> None:
        self.literal: dict[str, ByWhom] = {}
        self.prefixed: dict[str, ByWhom] = {}
        self.lengths: dict[int, int] = {}
        """Length -> how many prefixes have this length."""

    def _named(self, acl: Acl) -> dict[str, ByWhom]:
        return self.prefixed if acl.pattern_type == PREFIXED else self.literal

    def add(self, acl: Acl, host: str | Range) -> None:
        """Add an entry. `host`: the entry's host, or the range of hosts that the host names."""
        named = self._named(acl)
        found = named.get(acl.resource_name)
        if found is None:
            found = named[acl.resource_name] = {}
            if named is self.prefixed:
                length = len(acl.resource_name)
                self.lengths[length] = self.lengths.get(length, 0) + 1
        found.setdefault((acl.principal, host), {})[acl] = None

    def remove(self, acl: Acl, host: str | Range) -> None:
        """Remove an entry, with the host with which it was added."""
        named = self._named(acl)
        found = named[acl.resource_name]
        whom = acl.principal, host
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
        literal = self.literal
        found = literal.get(name)
        if found:
            yield found
        found = literal.get(WILDCARD) if name != WILDCARD else None
        if found:
            yield found
        if self.lengths:
            prefixed, size = self.prefixed, len(name)
            for length in self.lengths:
                found = prefixed.get(name[:length]) if length <= size else None
                if found:
                    yield found


class MatchingRule(NamedTuple):
    """The entry that decides, or None if no entry matches. `is_open`: the resource has no entries at all."""

    acl: Acl | None
    is_open: bool


class AclRules:
    """A set of entries, which finds the entry that decides. An entry with two ids is in the set once."""

    __slots__ = ("_of_type", "_ranges", "by_id", "ids")

    def __init__(self) -> None:
        self.by_id: dict[bytes, Acl] = {}
        self.ids: dict[Acl, dict[bytes, None]] = {}
        """The ids of each entry. Only a log of another writer has several ids for one entry."""
        self._of_type: dict[int, _OfType] = {}
        self._ranges = Ranges()
        """The ranges that are hosts of entries."""

    def add(self, acl_id: bytes, acl: Acl) -> None:
        """Add an entry. The new entry replaces the entry that had this id."""
        self.remove(acl_id)
        self.by_id[acl_id] = acl
        ids = self.ids.setdefault(acl, {})
        if not ids:
            hosts = range_of(acl.host)
            self._of_type.setdefault(acl.resource_type, _OfType()).add(acl, hosts or acl.host)
            if hosts is not None:
                self._ranges.add(hosts)
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
            hosts = range_of(acl.host)
            self._of_type[acl.resource_type].remove(acl, hosts or acl.host)
            if hosts is not None:
                self._ranges.remove(hosts)

    def matching_rule(self, principal: str, host: str, operation: int, resource_type: int, name: str) -> MatchingRule:
        """The rule that decides whether a principal may do this. An entry that denies precedes all that allow."""
        allowed, is_open = None, True
        of_type = self._of_type.get(resource_type)
        if of_type is not None:
            whom = self._whom(principal, host)
            for by_whom in of_type.concerning(name):
                is_open = False
                for one in whom:
                    for acl in by_whom.get(one, ()):
                        if acl.applies_to(operation):
                            if acl.permission_type != ALLOW:
                                return MatchingRule(acl, False)
                            allowed = acl
        return MatchingRule(allowed, is_open)

    def candidates(self, wanted: AclFilter) -> Iterable[Acl]:
        """All entries that a filter may select: few entries if the filter names one resource."""
        kind, name, pattern = wanted.resource_type, wanted.resource_name, wanted.pattern_type
        if kind == ANY or name is None or pattern not in PATTERN_TYPES:
            return list(self.ids)
        of_type = self._of_type.get(kind)
        if of_type is None:
            return ()
        named = of_type.prefixed if pattern == PREFIXED else of_type.literal
        return [acl for acls in named.get(name, {}).values() for acl in acls]

    def allows_some(self, principal: str, host: str, operation: int, resource_type: int) -> bool:
        """Whether entries allow a resource of this type and no entry denies it (Authorizer.authorizeByResourceType).

        As on Kafka, no operation implies another operation here.
        """
        refused: dict[int, set[str]] = {LITERAL: set(), PREFIXED: set()}
        allowed: list[Acl] = []
        for acl in self._applying_to(principal, host, operation, resource_type):
            if acl.permission_type == ALLOW:
                allowed.append(acl)
            elif acl.pattern_type == LITERAL and acl.resource_name == WILDCARD:
                return False
            elif acl.pattern_type in refused:
                refused[acl.pattern_type].add(acl.resource_name)
        prefixes = _shortest(refused[PREFIXED])
        return any(_is_open_to(acl, refused[LITERAL], prefixes) for acl in allowed)

    def _applying_to(self, principal: str, host: str, operation: int, resource_type: int) -> Iterator[Acl]:
        of_type = self._of_type.get(resource_type)
        if of_type is None:
            return
        whom = dict.fromkeys(self._whom(principal, host))
        for named in (of_type.literal, of_type.prefixed):
            for by_whom in named.values():
                for one in whom:
                    for acl in by_whom.get(one, ()):
                        if acl.operation in (operation, ALL):
                            yield acl

    def _whom(self, principal: str, host: str) -> tuple[Whom, ...]:
        """The principals and hosts of all entries that apply to a client."""
        whom: tuple[Whom, ...] = (principal, host), (principal, WILDCARD), (EVERYBODY, host), (EVERYBODY, WILDCARD)
        if not self._ranges:
            return whom
        return (*whom, *((who, one) for one in self._ranges.of_host(host) for who in (principal, EVERYBODY)))


def _shortest(prefixes: Iterable[str]) -> list[str]:
    """The prefixes that do not begin with another prefix, in order. The result covers the same names as `prefixes`."""
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


class Denial(NamedTuple):
    """A refused request, for the audit log. `rule`: the rule that decided, in the words of Kafka's audit lines."""

    requester: Requester
    operation: int
    resource_type: int
    name: str
    rule: str


class StandardAuthorizer:
    """The authorizer of a node (see `authorizer.Authorizer`)."""

    __slots__ = ("_allows_when_open", "_answers", "_denied", "_some", "_super_users", "rules", "version")

    def __init__(
        self,
        super_users: Iterable[str] = (),
        *,
        allows_when_open: bool = False,
        denied: Callable[[Denial], object] = lambda _: None,
    ) -> None:
        """`super_users` ("User:alice") may do everything. `denied` gets each refusal.

        `allows_when_open`: resources without entries are open to all (allow.everyone.if.no.acl.found).
        """
        self.version = 0
        self.rules = AclRules()
        self._super_users = frozenset(super_users)
        self._allows_when_open = allows_when_open
        self._denied = denied
        self._answers: dict[tuple[KafkaPrincipal, str, int, int, str], bool] = {}
        self._some: dict[tuple[KafkaPrincipal, str, int, int], bool] = {}

    def update(self, records: Iterable[Message]) -> None:
        """Apply the new and deleted entries in records of the metadata log. Other records are ignored."""
        for record in records:
            if isinstance(record, AccessControlEntryRecord):
                self.rules.add(record.id, of_record(record))
            elif isinstance(record, RemoveAccessControlEntryRecord):
                self.rules.remove(record.id)
        self.version += 1
        self._answers.clear()
        self._some.clear()

    def allows(
        self, requester: Requester, operation: int, resource_type: int, name: str, *, log_denied: bool = True
    ) -> bool:
        key = (requester.principal, requester.host, operation, resource_type, name)
        answer = self._answers.get(key)
        if answer is None:
            if len(self._answers) >= MAX_KEPT:
                self._answers.clear()
            answer = self._answers[key] = self._decide(*key)[0]
        if not answer and log_denied:
            self._denied(Denial(requester, operation, resource_type, name, self._decide(*key)[1]))
        return answer

    def allowed(
        self,
        requester: Requester,
        operation: int,
        resource_type: int,
        names: Iterable[str],
        *,
        log_denied: bool = True,
    ) -> Container[str]:
        allows = self.allows
        return {name for name in names if allows(requester, operation, resource_type, name, log_denied=log_denied)}

    def allows_some(self, requester: Requester, operation: int, resource_type: int) -> bool:
        principal, host = requester.principal, requester.host
        key = (principal, host, operation, resource_type)
        answer = self._some.get(key)
        if answer is None:
            if len(self._some) >= MAX_KEPT:
                self._some.clear()
            answer = self._some[key] = self._decide(*key, _ANY_NAME)[0] or self.rules.allows_some(
                str(principal), java_address(host), operation, resource_type
            )
        return answer

    def _decide(
        self, principal: KafkaPrincipal, host: str, operation: int, resource_type: int, name: str
    ) -> tuple[bool, str]:
        """The answer, and the rule behind the answer, in Kafka's words."""
        who = str(principal)
        if who in self._super_users:
            return True, "SuperUser"
        acl, is_open = self.rules.matching_rule(who, java_address(host), operation, resource_type, name)
        if acl is not None:
            return acl.permission_type == ALLOW, f"MatchingAcl(acl={acl})"
        if is_open and self._allows_when_open:
            return True, "DefaultAllow"
        return False, "DefaultDeny"


def java_address(host: str) -> str:
    """A requester's host as entries have it: without "/", and IPv6 in full (InetAddress.getHostAddress)."""
    text = host.removeprefix("/")
    if ":" not in text:
        return text
    address, percent, scope = text.partition("%")
    try:
        groups = ipaddress.IPv6Address(address).exploded.split(":")
    except ValueError:
        return text
    return ":".join(group.lstrip("0") or "0" for group in groups) + percent + scope
