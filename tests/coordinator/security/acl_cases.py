"""Random sets of access control entries, and questions about them, for Kafka's class and for ours."""

from __future__ import annotations

import random
from pathlib import Path
from typing import NamedTuple

from muster.coordinator.security.acls import Acl, to_record
from muster.coordinator.security.authorizer import KafkaPrincipal
from muster.coordinator.security.standard_authorizer import StandardAuthorizer

NAMES = ("a", "ab", "abc", "abcd", "b", "ba", "a.b", "-a", "kafka-cluster", "hardcode", "har", "Ä", "ab\U0001f600")
HOSTS = ("127.0.0.1", "10.1.2.3", "0:0:0:0:0:0:0:1", "2001:db8:0:0:0:0:0:a")
RANGES = (
    "10.0.0.0/8", "10.1.2.3/31", "10.1.2.2/31", "10.1.2.3/32", "127.0.0.1/0", "192.168.0.0/16", "192.168.0.1/17",
    "010.1.2.3/9", "0.0.0.0/0", "0.0.0.0/32", "::/0", "2001:db8::/32", "2001:DB8::b/127", "2001:db8::a/128",
    "0002001:db8::c/126", "::1/128", "[::1]/127", "fe80::1%1/10", "10.0.0.0/33", "10.0.0/8", "::/129", "::1", "/",
    "a/8",
)  # fmt: skip
"""Hosts of entries in which a slash may make a range (KIP-1276). Old entries may have bad ranges."""
ASKED_HOSTS = ("127.0.0.1", "10.1.2.3", "::1", "2001:db8::a", "192.168.0.1", "10.1.2.2", "0.0.0.0", "192.168.129.1")
ASKERS = (("User", "ann"), ("User", "bob"), ("Group", "ann"), ("User", "CN=x,O=y:z"), ("User", ""))
"""User:* is left out: Kafka fails for a client with this name."""
PRINCIPALS = (("User", "ann"), ("User", "bob"), ("User", "*"), *ASKERS[2:])
SUPER_USERS = ("", "", "User:ann", "User:bob; Group:ann;", "User:*")


class Question(NamedTuple):
    """May this principal from this address do the operation on the resource? `name` None: on any of the type."""

    principal: KafkaPrincipal
    address: str
    operation: int
    resource_type: int
    name: str | None


class Case(NamedTuple):
    super_users: str
    is_open: bool
    acls: list[Acl]
    questions: list[Question]

    def authorizer(self) -> StandardAuthorizer:
        """Our authorizer with these entries."""
        users = filter(None, (user.strip() for user in self.super_users.split(";")))
        authorizer = StandardAuthorizer(users, allows_when_open=self.is_open)
        authorizer.update(to_record(acl, number.to_bytes(16)) for number, acl in enumerate(self.acls))
        return authorizer


class Asker(NamedTuple):
    principal: KafkaPrincipal
    host: str
    listener: str = "PLAINTEXT"


def make(draw: random.Random, questions: int = 50) -> Case:
    """Make one case. It has few names with the same beginnings, so that entries overlap."""
    kinds = draw.sample((2, 3, 4, 5, 6, 7), draw.randint(1, 3))
    names = draw.sample(NAMES, draw.randint(1, 6))
    acls = list(dict.fromkeys(_acl(draw, kinds, names) for _ in range(draw.choice((0, 1, 3, 8, 20, 60)))))
    asked = [
        Question(
            KafkaPrincipal(*draw.choice(ASKERS)),
            draw.choice(ASKED_HOSTS),
            draw.randint(3, 15),
            draw.choice(kinds),
            None if draw.random() < 0.1 else draw.choice((*names, *names, "other", "abz", "*")),
        )
        for _ in range(questions)
    ]
    return Case(draw.choice(SUPER_USERS), draw.random() < 0.4, acls, asked)


def _acl(draw: random.Random, kinds: list[int], names: list[str]) -> Acl:
    return Acl(
        draw.choice(kinds),
        draw.choice((*names, *names, "*")),
        draw.choice((3, 4)),
        ":".join(draw.choice((*PRINCIPALS[:3], *PRINCIPALS))),
        draw.choice((*HOSTS, "*", "*", "*", *draw.sample(RANGES, 4))),
        draw.choice((2, *range(3, 16))),
        draw.choice((2, 3, 3)),
    )


def answers(case: Case) -> str:
    """Our answer to each question: 1 or 0."""
    authorizer = case.authorizer()
    found = ""
    for principal, address, operation, kind, name in case.questions:
        asker = Asker(principal, f"/{address}")
        if name is None:
            is_allowed = authorizer.allows_some(asker, operation, kind)
        else:
            is_allowed = authorizer.allows(asker, operation, kind, name)
        found += "1" if is_allowed else "0"
    return found


def recorded_cases() -> list[Case]:
    """Cases for which `recorded_answers` has Kafka's answers."""
    draw = random.Random(5)
    return [make(draw) for _ in range(200)]


def recorded_answers() -> list[str]:
    """The answers of Kafka 4.4's StandardAuthorizer to each question (tests/conformance/Decisions.java)."""
    return Path(__file__).with_name("java-decisions.txt").read_text().split()
