"""Measures the CPU time of an ACL decision among 1,000 entries, in us, median and minimum: `python -m bench.acls`."""

from __future__ import annotations

from itertools import cycle
from typing import NamedTuple

from bench.codec import measure
from muster.coordinator.security.acls import ALLOW, DENY, LITERAL, PREFIXED, Acl, to_record
from muster.coordinator.security.authorizer import KafkaPrincipal, Operation, ResourceType
from muster.coordinator.security.standard_authorizer import StandardAuthorizer

DECISION_US, CACHED_US = 3.0, 0.2
"""The goals: us for a first decision, and for a cached one."""
ENTRIES = 1_000


class Requester(NamedTuple):
    """The client whose rights are checked."""

    principal: KafkaPrincipal
    host: str
    listener: str = "PLAINTEXT"


def entries() -> list[Acl]:
    """The ACL entries of a hundred users. Each user may read some topics, by name and by prefix; some entries deny."""
    return [
        Acl(
            ResourceType.TOPIC,
            f"orders-{i % 250}" if i % 4 else f"orders-{i % 31}-",
            LITERAL if i % 4 else PREFIXED,
            f"User:u{i % 97}",
            "*" if i % 3 else "127.0.0.1",
            Operation.READ,
            DENY if i % 20 == 7 else ALLOW,
        )
        for i in range(ENTRIES)
    ]


def main() -> None:
    """Print the figures."""
    authorizer = StandardAuthorizer()
    found = entries()
    assert len(set(found)) > ENTRIES * 0.9
    authorizer.update([to_record(acl, number.to_bytes(16, "big")) for number, acl in enumerate(found)])
    requesters = [Requester(KafkaPrincipal("User", f"u{i}"), "/127.0.0.1") for i in range(100)]
    asked = cycle([(one, f"orders-{i * 7 % 300}-{i}"[: 9 + i % 5]) for i, one in enumerate(requesters * 10)])
    decide, allows = authorizer._decide, authorizer.allows

    def first() -> None:
        one, name = next(asked)
        decide(one.principal, one.host, Operation.READ, ResourceType.TOPIC, name)

    measure("an ACL decision among 1,000 entries", first, DECISION_US)
    one = requesters[7]
    measure(
        "the same again, cached",
        lambda: allows(one, Operation.READ, ResourceType.TOPIC, "orders-7", log_denied=False),
        CACHED_US,
    )


if __name__ == "__main__":
    main()
