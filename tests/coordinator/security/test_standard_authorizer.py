from __future__ import annotations

import pytest

from muster.coordinator.security import standard_authorizer
from muster.coordinator.security.acls import ALL, ALLOW, DENY, LITERAL, Acl, to_record
from muster.coordinator.security.authorizer import (
    KafkaPrincipal,
    Operation,
    ResourceType,
    authorized_operations,
    may_create_topic,
)
from muster.coordinator.security.standard_authorizer import Denial, StandardAuthorizer, java_address
from muster.protocol.message import Message
from muster.protocol.messages.metadata_records.feature_level_record import FeatureLevelRecord
from muster.protocol.messages.metadata_records.remove_access_control_entry_record import (
    RemoveAccessControlEntryRecord,
)
from tests.coordinator.security.acl_cases import Asker

ANN = Asker(KafkaPrincipal("User", "ann"), "/10.0.0.1")
READ = (Operation.READ, ResourceType.TOPIC)


def entry(name: str = "t", operation: int = Operation.READ, permission: int = ALLOW, number: int = 1) -> Message:
    acl = Acl(ResourceType.TOPIC, name, LITERAL, "User:ann", "*", operation, permission)
    return to_record(acl, number.to_bytes(16))


def gone(number: int = 1) -> Message:
    return RemoveAccessControlEntryRecord(number.to_bytes(16))


def test_a_cached_decision_is_never_stale() -> None:
    authorizer = StandardAuthorizer()
    assert not authorizer.allows(ANN, *READ, "t")
    assert not authorizer.allows_some(ANN, *READ)
    before = authorizer.version
    authorizer.update([entry()])
    assert authorizer.version != before
    assert authorizer.allows(ANN, *READ, "t")
    assert authorizer.allows_some(ANN, *READ)
    authorizer.update([entry(permission=DENY, number=2)])
    assert not authorizer.allows(ANN, *READ, "t")
    authorizer.update([gone(2)])
    assert authorizer.allows(ANN, *READ, "t")
    authorizer.update([gone()])
    assert not authorizer.allows(ANN, *READ, "t")
    assert not authorizer.allows_some(ANN, *READ)


def test_records_that_are_no_acls_are_ignored() -> None:
    authorizer = StandardAuthorizer()
    authorizer.update([FeatureLevelRecord(name="metadata.version"), gone(7)])
    assert not authorizer.rules.by_id


def test_super_users_may_do_everything() -> None:
    authorizer = StandardAuthorizer(["User:ann"])
    authorizer.update([entry(operation=ALL, permission=DENY)])
    assert authorizer.allows(ANN, *READ, "t")
    assert authorizer.allows_some(ANN, Operation.WRITE, ResourceType.TOPIC)
    assert not authorizer.allows(ANN._replace(principal=KafkaPrincipal("User", "bob")), *READ, "t")


def test_resources_without_entries_can_be_open_to_all() -> None:
    authorizer = StandardAuthorizer(allows_when_open=True)
    authorizer.update([entry("t")])
    assert authorizer.allows(ANN, *READ, "other")
    assert not authorizer.allows(ANN, Operation.WRITE, ResourceType.TOPIC, "t")


def test_several_resources_are_authorized_at_once() -> None:
    authorizer = StandardAuthorizer()
    authorizer.update([entry("a"), entry("b", number=2)])
    allowed = authorizer.allowed(ANN, *READ, ["a", "b", "c"])
    assert [name for name in ("a", "b", "c") if name in allowed] == ["a", "b"]


def test_denials_are_reported_with_their_rule() -> None:
    reported: list[Denial] = []
    authorizer = StandardAuthorizer(denied=reported.append)
    authorizer.update([entry(permission=DENY)])
    for _ in range(2):  # also when the answer is cached
        assert not authorizer.allows(ANN, *READ, "t")
    assert not authorizer.allows(ANN, *READ, "u")
    assert not authorizer.allows(ANN, *READ, "v", log_denied=False)
    assert [one.name for one in reported] == ["t", "t", "u"]
    assert reported[0].rule.startswith("MatchingAcl(acl=StandardAcl(resourceType=TOPIC, resourceName=t")
    assert reported[2].rule == "DefaultDeny"


def test_resources_that_are_only_omitted_are_not_reported_as_denials() -> None:
    reported: list[Denial] = []
    authorizer = StandardAuthorizer(denied=reported.append)
    authorizer.update([entry()])
    implied = 1 << Operation.READ | 1 << Operation.DESCRIBE
    assert authorized_operations(authorizer, ANN, ResourceType.TOPIC, "t") == implied
    assert not reported
    assert not may_create_topic(authorizer, ANN, "t")
    assert [(one.operation, one.resource_type) for one in reported] == [(Operation.CREATE, ResourceType.TOPIC)]


def test_the_number_of_cached_decisions_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(standard_authorizer, "MAX_KEPT", 3)
    authorizer = StandardAuthorizer()
    authorizer.update([entry("9")])
    for number in range(20):
        assert authorizer.allows(ANN, *READ, str(number)) == (number == 9)
        authorizer.allows_some(ANN, Operation.READ, number)
        assert len(authorizer._answers) <= 3
        assert len(authorizer._some) <= 3


@pytest.mark.parametrize(
    ("host", "address"),
    [
        ("/127.0.0.1", "127.0.0.1"),
        ("127.0.0.1", "127.0.0.1"),
        ("/::1", "0:0:0:0:0:0:0:1"),
        ("/2001:db8::a:0", "2001:db8:0:0:0:0:a:0"),
        ("/fe80::1%eth0", "fe80:0:0:0:0:0:0:1%eth0"),
        ("/not:an:address", "not:an:address"),
        ("", ""),
    ],
)
def test_addresses_have_javas_text(host: str, address: str) -> None:
    assert java_address(host) == address
