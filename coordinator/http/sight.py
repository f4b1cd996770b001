"""Which groups and topics the user of a request sees: those that its principal may describe."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from muster.coordinator.http.users import Looking
from muster.coordinator.security.authorizer import AllowAll, Operation, ResourceType
from muster.coordinator.server.exposition import labels_of
from muster.coordinator.server.server import Server

Sees = Callable[[str], bool]
"""Whether a name is seen."""
MAX_NAMES: Final = 10_000
"""The most names whose answer is remembered."""
_NAMED: Final = {"consumergroup": ResourceType.GROUP, "group": ResourceType.GROUP, "topic": ResourceType.TOPIC}
"""The labels of metrics that name a group or a topic."""


def sight(server: Server, scope: Any, resource_type: int) -> Sees | None:
    """What the sender of an HTTP request sees. None means that it sees everything: it has the token, the door needs
    none, or the server has no ACLs.
    """
    principal = scope.get("principal")
    authorizer = server.node.authorizer
    if principal is None or isinstance(authorizer, AllowAll):
        return None
    looking = Looking(principal, f"/{(scope.get('client') or ('127.0.0.1',))[0]}")
    known: dict[str, bool] = {}
    version = authorizer.version

    def sees(name: str) -> bool:
        nonlocal version
        if version != authorizer.version or len(known) >= MAX_NAMES:
            known.clear()
            version = authorizer.version
        found = known.get(name)
        if found is None:
            found = authorizer.allows(looking, Operation.DESCRIBE, resource_type, name, log_denied=False)
            known[name] = found
        return found

    return sees


def seen_lines(server: Server, scope: Any) -> Callable[[bytes], bytes] | None:
    """What keeps the lines of a scrape about the groups and topics that the sender sees. None means all lines.

    A figure of several groups without a name is not kept: it counts groups that the sender does not see.
    """
    sights = {label: sight(server, scope, what) for label, what in _NAMED.items()}
    if None in sights.values():
        return None

    def is_seen(line: str) -> bool:
        return all(sees(value) for name, value in labels_of(line) if (sees := sights.get(name)) is not None)

    def kept(part: bytes) -> bytes:
        lines = part.decode().split("\n")[:-1]  # a name may have other ends of lines
        return "".join(f"{line}\n" for line in lines if line.startswith("#") or is_seen(line)).encode()

    return kept
