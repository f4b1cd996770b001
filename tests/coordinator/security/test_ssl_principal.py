"""Names of clients with certificates: Muster's answers to random names and rules are those of Java's classes."""

from __future__ import annotations

import pytest

from muster.coordinator.security.authorizer import ANONYMOUS
from muster.coordinator.security.distinguished_name import BadCertificate, name, subject
from muster.coordinator.security.ssl_principal import InvalidRules, NoName, SslPrincipalMapper
from tests.coordinator.security.principal_cases import FROZEN


def answer(line: str) -> str:
    """The answer to a line of `principal_cases`, in the form of Principals.java."""
    kind, *fields = line.split(" ")
    try:
        if kind == "name":
            text = name(_inside(bytes.fromhex(fields[0])))
        else:
            rules, distinguished_name = (bytes.fromhex(field).decode() for field in fields)
            text = SslPrincipalMapper(rules).name(distinguished_name)
    except (InvalidRules, NoName):
        return "-"
    return "=" + text.encode().hex()


def _inside(sequence: bytes) -> bytes:
    return sequence[2 + (sequence[1] & 0x7F if sequence[1] & 0x80 else 0) :]


def shown(line: str) -> list[str]:
    return [line[:5], *(bytes.fromhex(one.lstrip("=-")).decode("utf-8", "replace") for one in line.split(" ")[1:])]


def test_principal_names_of_random_certificates_equal_javas() -> None:
    lines = FROZEN.read_text().splitlines()
    assert len(lines) > 1500
    assert {line.split(" ")[0] for line in lines} == {"name", "map"}
    split = [line.rpartition(" ") for line in lines]
    assert [[*shown(asked), java, answer(asked)] for asked, _, java in split if answer(asked) != java] == []


@pytest.mark.parametrize(
    ("rules", "why"),
    [
        ("RULE:a/b", "neither DEFAULT nor RULE:pattern/replacement/"),
        ("RULE:(a/b/", "is not a regular expression"),
        ("RULE:[a-z&&[^b]]/x/", "intersection|class within"),
        ("RULE:\\p{IsGreek}/x/", "not known here"),
        ("RULE:a(?x)b/x/", "flags"),
        ("RULE:\\bx/x/", "not known here"),
    ],
)
def test_wrong_principal_mapping_rules_are_refused(rules: str, why: str) -> None:
    with pytest.raises(InvalidRules, match=why):
        SslPrincipalMapper(rules)


def test_an_expensive_mapping_pattern_is_matched_at_once() -> None:
    mapper = SslPrincipalMapper("RULE:CN=(a+)+,O=x/$1/,DEFAULT")
    assert mapper.name("CN=" + "a" * 5000) == "CN=" + "a" * 5000


def test_without_a_certificate_a_client_is_anonymous() -> None:
    assert SslPrincipalMapper("RULE:CN=(.*)/$1/").principal(None) == ANONYMOUS


@pytest.mark.parametrize(
    "data", [b"", b"\x30", b"\x30\x03\x02\x01", b"\x02\x01\x01", b"\x30\x84\xff\xff\xff\xff", b"x" * 50]
)
def test_a_malformed_certificate_has_no_principal(data: bytes) -> None:
    with pytest.raises(BadCertificate):
        subject(data)
    with pytest.raises(NoName):
        SslPrincipalMapper().principal(data)
