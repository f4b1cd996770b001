"""The configuration of the authorizer: Kafka's class, `super.users`, `allow.everyone.if.no.acl.found`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, NamedTuple

from muster.coordinator.config.error import ConfigError

AUTHORIZER: Final = "authorizer.class.name"
SUPER_USERS: Final = "super.users"
ALLOW_EVERYONE: Final = "allow.everyone.if.no.acl.found"
STANDARD: Final = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"


class Authorization(NamedTuple):
    """The settings of the StandardAuthorizer."""

    super_users: tuple[str, ...]
    """Principals, "User:alice", that may do everything."""
    allows_when_open: bool
    """Resources without access control entries are open to all."""


def authorization_of(text: Callable[[str], str | None]) -> Authorization | None:
    """The settings. None means that no authorizer is configured, and everybody may do everything. `text`: returns a
    property's value as it was given.

    Raises ConfigError with one sentence.
    """
    name = (text(AUTHORIZER) or "").strip()
    if not name:
        return None
    if name != STANDARD:
        raise ConfigError(f"{AUTHORIZER}: there is no authorizer {name}; expected {STANDARD}, or nothing for none")
    users = tuple(filter(None, (user.strip() for user in (text(SUPER_USERS) or "").split(";"))))
    for user in users:
        if ":" not in user:
            raise ConfigError(f"{SUPER_USERS}: '{user}' is no principal; expected TYPE:NAME, as in User:{user}")
    # any other word means false, as for Java's Boolean.parseBoolean
    return Authorization(users, (text(ALLOW_EVERYONE) or "").strip().lower() == "true")
