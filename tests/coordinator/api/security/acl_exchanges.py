"""Requests about access control entries, one after the other on a new cluster, and what Kafka 4.4 answers to them."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple

from muster.protocol.message import Message
from muster.protocol.messages.create_acls import AclCreation, CreateAclsRequest, CreateAclsResponse
from muster.protocol.messages.delete_acls import DeleteAclsFilter, DeleteAclsRequest, DeleteAclsResponse
from muster.protocol.messages.describe_acls import DescribeAclsRequest, DescribeAclsResponse


class Exchange(NamedTuple):
    name: str
    request: Message
    version: int = 3


def entry(
    kind: int = 2,
    name: str = "t",
    pattern: int = 3,
    principal: str = "User:a",
    host: str = "*",
    operation: int = 3,
    permission: int = 3,
) -> AclCreation:
    return AclCreation(kind, name, pattern, principal, host, operation, permission)


def selected(
    kind: int = 1,
    name: str | None = None,
    pattern: int = 1,
    principal: str | None = None,
    host: str | None = None,
    operation: int = 1,
    permission: int = 1,
) -> DeleteAclsFilter:
    return DeleteAclsFilter(kind, name, pattern, principal, host, operation, permission)


def described(*given: Any, **named: Any) -> DescribeAclsRequest:
    """A DescribeAcls with the filter that `selected` makes."""
    row = selected(*given, **named)
    return DescribeAclsRequest(*(getattr(row, name) for name in row.__slots__))


def create(*rows: AclCreation) -> CreateAclsRequest:
    return CreateAclsRequest(list(rows))


def delete(*rows: DeleteAclsFilter) -> DeleteAclsRequest:
    return DeleteAclsRequest(list(rows))


CIDR_HOSTS = (
    "10.0.0.0/8", "10.1.2.3/8", "10.0.0.0/0", "10.0.0.0/32", "10.0.0.0/33", "10.0.0.0/99", "10.0.0.0/100", "10.0.0.0/",
    "10.0.0/8", "256.0.0.0/8", "010.0.0.1/8", "1.2.3.4/08", "1.2.3.4/8/9", "/8", "/", "*/8", "host/8", "1.2.3.4/-1",
    "1.2.3.4/+8", " 1.2.3.4/8", "1.2.3.4 /8", "2001:db8::/32", "2001:DB8::a/32", "::/0", "::1/128", "::1/129", "::1/-1",
    "::1/", "::1/x", "1:2:3:4:5:6:7:8/64", "1:2:3:4:5:6:7:8:9/64", "1:2:3/64", "1::2::3/64", "12345::/64", "g::/64",
    "::ffff:10.0.0.1/96", "fe80::1%1/64", ":/64", "[::1]/64", "::1/64/64", "::1 /64", "::1/ 64",
    "::1/064", "::1/+64", "\u0661.2.3.4/8", "1.2.3.4/\u0668", "1.2.3.999/8", "1.2.3.4/255.0.0.0", "::/99999999999",
)  # fmt: skip
"""Hosts with a slash, which Kafka takes for CIDR ranges (KIP-1276)."""


def _exchanges() -> Iterable[Exchange]:
    yield Exchange("none yet", described())
    yield Exchange("a first one", create(entry()))
    yield Exchange("the same again", create(entry()))
    yield Exchange("the same twice", create(entry(name="twice"), entry(name="twice")))
    yield Exchange("one of two is wrong", create(entry(name="right"), entry(name="")))
    yield Exchange("none to make", create())
    for kind, name in (
        (0, "t"),
        (1, "t"),
        (4, "x"),
        (4, "kafka-cluster"),
        (6, "token"),
        (7, "user"),
        (9, "t"),
        (-1, "t"),
    ):
        yield Exchange(f"type {kind}, name {name}", create(entry(kind, name)))
    for name, pattern in (("", 3), ("*", 3), ("*", 4), ("a b/!", 3), ("x" * 300, 3)):
        yield Exchange(f"name {name[:9]!r}, pattern {pattern}", create(entry(name=name, pattern=pattern)))
    for code in (0, 1, 2, 9):
        yield Exchange(f"pattern {code}", create(entry(pattern=code)))
    for principal in ("", "bob", "User:", "Group:g", ":x"):
        yield Exchange(f"principal {principal!r}", create(entry(principal=principal)))
    for host in ("", "nohost", *CIDR_HOSTS):
        yield Exchange(f"host {host!r}", create(entry(host=host)))
    for code in (0, 1, 2, 13, 14, 15, 16, 99):
        yield Exchange(f"operation {code}", create(entry(operation=code)))
    for code in (0, 1, 2, 7):
        yield Exchange(f"permission {code}", create(entry(permission=code)))
    yield Exchange("an operation that a group does not have", create(entry(3, operation=4)))
    yield Exchange("a filter's code beside a right one", create(entry(name="not made"), entry(operation=1)))
    for version in (1, 2):
        yield Exchange(f"in version {version}", create(entry(name=f"v{version}")), version)
        yield Exchange(f"told in version {version}", described(name="v1", pattern=3), version)
    yield Exchange("all", described())
    for kind, name, pattern in ((0, None, 1), (2, None, 1), (9, None, 1), (1, None, 0), (1, None, 2), (1, "t", 2),
                                (1, "none", 2), (1, None, 3), (1, "t", 3), (1, None, 9), (1, "", 1)):  # fmt: skip
        yield Exchange(f"those of type {kind}, name {name}, pattern {pattern}", described(kind, name, pattern))
    for code in (0, 3, 99):
        yield Exchange(f"those of operation {code}", described(operation=code))
    for code in (0, 2, 9):
        yield Exchange(f"those of permission {code}", described(permission=code))
    for principal in ("bob", "User:a", ""):
        yield Exchange(f"those of {principal!r}", described(principal=principal))
    for host in ("*", "", "10.0.0.0/8", "10.1.2.3"):
        yield Exchange(f"those from {host!r}", described(host=host))
    for field in ({"kind": 0}, {"kind": 9}, {"pattern": 0}, {"pattern": 9}, {"operation": 0}, {"operation": 99},
                  {"permission": 0}, {"permission": 9}):  # fmt: skip
        yield Exchange(f"delete by {field}", delete(selected(**field)))
    yield Exchange("delete those from a range", delete(selected(host="2001:db8::/32"), selected(host="10.0.0.0/9")))
    yield Exchange("delete nothing", delete())
    yield Exchange("delete what is not there", delete(selected(principal="none")))
    yield Exchange("delete one", delete(selected(name="twice", pattern=3)))
    yield Exchange("delete by two that overlap", delete(selected(name="t", pattern=3, operation=3),
                                                        selected(name="t", pattern=2, operation=3)))  # fmt: skip
    yield Exchange("delete by one that is right", delete(selected(name="right"), selected(operation=99)))
    for version in (1, 2):
        yield Exchange(f"delete in version {version}", delete(selected(name=f"v{version}")), version)
    yield Exchange("what is left", described())
    yield Exchange("delete the rest", delete(selected()))
    yield Exchange("nothing is left", described())


EXCHANGES = list(_exchanges())
CLOSED = "closed"
"""Stands in place of an answer: the connection was closed."""


def values_of(answer: Any) -> Any:
    """An answer as plain data. Entries are sorted, because Kafka's order is that of its hashes."""
    if isinstance(answer, CreateAclsResponse):
        return [[row.error_code, row.error_message] for row in answer.results]
    if isinstance(answer, DescribeAclsResponse):
        resources = [
            [
                *(one.resource_type, one.resource_name, one.pattern_type),
                sorted([acl.principal, acl.host, acl.operation, acl.permission_type] for acl in one.acls),
            ]
            for one in answer.resources
        ]
        return [answer.error_code, answer.error_message, sorted(resources, key=repr)]
    if isinstance(answer, DeleteAclsResponse):
        return [
            [
                row.error_code,
                row.error_message,
                sorted(([getattr(acl, name) for name in acl.__slots__] for acl in row.matching_acls), key=repr),
            ]
            for row in answer.filter_results
        ]
    return answer


def kafkas() -> dict[str, list[Any]]:
    """Kafka 4.3's answers: `with an authorizer`, `without one`."""
    found: dict[str, list[Any]] = json.loads(Path(__file__).with_name("acls_of_kafka.json").read_text())
    return found
