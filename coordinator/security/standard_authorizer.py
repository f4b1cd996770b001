"""Kafka's StandardAuthorizer: permissions by the access control entries of the metadata log.

Pure. It gets each new and each deleted entry. It keeps its answers until an entry changes.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Callable, Container, Iterable
from typing import Final, NamedTuple

from muster.coordinator.security.acls import ALLOW, AclRules, of_record
from muster.coordinator.security.authorizer import KafkaPrincipal, Requester
from muster.protocol.message import Message
from muster.protocol.messages.metadata_records.access_control_entry_record import AccessControlEntryRecord
from muster.protocol.messages.metadata_records.remove_access_control_entry_record import (
    RemoveAccessControlEntryRecord,
)

MAX_KEPT: Final = 100_000
"""So many answers are kept, some 30 MB: clients choose the names. Beyond this all are dropped."""
_ANY_NAME: Final = "hardcode"
"""The resource name that Kafka uses to find out whether a client may do everything."""


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
        """`super_users`: principals ("User:alice") that may do everything. `allows_when_open`: resources without
        entries are open to all (allow.everyone.if.no.acl.found). `denied` gets each refusal.
        """
        self.version = 0
        self.rules = AclRules()
        self._super_users = frozenset(super_users)
        self._allows_when_open = allows_when_open
        self._denied = denied
        self._answers: dict[tuple[KafkaPrincipal, str, int, int, str], bool] = {}
        self._some: dict[tuple[KafkaPrincipal, str, int, int], bool] = {}

    def take_in(self, records: Iterable[Message]) -> None:
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
        """Whether the requester may do this to the resource of this name."""
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
        """The names for which `allows` is true."""
        allows = self.allows
        return {name for name in names if allows(requester, operation, resource_type, name, log_denied=log_denied)}

    def allows_some(self, requester: Requester, operation: int, resource_type: int) -> bool:
        """Whether the requester may do this to any resource of this type."""
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
        """The answer, and the rule behind it in Kafka's words."""
        who = str(principal)
        if who in self._super_users:
            return True, "SuperUser"
        acl, is_open = self.rules.ruling(who, java_address(host), operation, resource_type, name)
        if acl is not None:
            return acl.permission_type == ALLOW, f"MatchingAcl(acl={acl})"
        if is_open and self._allows_when_open:
            return True, "DefaultAllow"
        return False, "DefaultDeny"


def java_address(host: str) -> str:
    """A requester's host in the form of entries: without the "/". An IPv6 address is not shortened (Java's
    InetAddress.getHostAddress).
    """
    text = host.removeprefix("/")
    if ":" not in text:
        return text
    address, percent, scope = text.partition("%")
    try:
        groups = ipaddress.IPv6Address(address).exploded.split(":")
    except ValueError:
        return text
    return ":".join(group.lstrip("0") or "0" for group in groups) + percent + scope
