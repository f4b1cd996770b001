from __future__ import annotations

import pytest

from muster.coordinator.config import ConfigError, load
from muster.coordinator.config.config import STANDARD, Authorization


def authorization(*overrides: str) -> Authorization | None:
    return load(overrides=overrides, in_memory=True).authorization


def test_there_is_no_authorizer_unless_a_class_is_named() -> None:
    assert authorization() is None
    assert authorization("authorizer.class.name=") is None
    config = load(overrides=["super.users=User:ann"], in_memory=True)
    assert config.authorization is None
    (note,) = config.notes
    assert note == "super.users have no effect without authorizer.class.name: every connected client may do everything"


def test_the_authorizer_gets_its_properties() -> None:
    assert authorization(f"authorizer.class.name={STANDARD}") == ((), False)
    config = load(
        overrides=[
            f"authorizer.class.name={STANDARD}",
            "super.users= User:ann;User:CN=x,O=y ; ",
            "allow.everyone.if.no.acl.found= TRUE ",
        ],
        in_memory=True,
    )
    assert config.authorization == (("User:ann", "User:CN=x,O=y"), True)
    assert not config.notes
    assert not config.unused()


def test_only_true_allows_everyone_without_entries() -> None:
    found = authorization(f"authorizer.class.name={STANDARD}", "allow.everyone.if.no.acl.found=yes")
    assert found is not None
    assert not found.allows_when_open


@pytest.mark.parametrize(
    ("overrides", "sentence"),
    [
        (
            ["authorizer.class.name=kafka.security.authorizer.AclAuthorizer"],
            "authorizer.class.name: there is no authorizer kafka.security.authorizer.AclAuthorizer; "
            f"expected {STANDARD}, or nothing for none",
        ),
        (
            [f"authorizer.class.name={STANDARD}", "super.users=User:ann;bob"],
            "super.users: 'bob' is no principal; expected TYPE:NAME, as in User:bob",
        ),
    ],
)
def test_wrong_authorizer_properties_refuse_the_start(overrides: list[str], sentence: str) -> None:
    with pytest.raises(ConfigError) as refused:
        load(overrides=overrides, in_memory=True)
    assert str(refused.value) == sentence
