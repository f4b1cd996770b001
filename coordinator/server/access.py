"""The authorizer and the delegation tokens of a server. Most servers have neither."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from importlib import import_module
from typing import Any, cast

import structlog

from muster.coordinator.api.node import Node
from muster.coordinator.config import Config
from muster.coordinator.security.authorizer import Authorizer
from muster.coordinator.system.clock import Clock
from muster.coordinator.system.jobs import JobQueue
from muster.coordinator.topics.topics import Topics

log = structlog.get_logger("muster.server")


def open_authorizer(config: Config, topics: Topics) -> Authorizer | None:
    """The configured authorizer, with the access control entries. None means that everybody may do everything."""
    given = config.authorization
    if given is None:
        return None
    # imported here: most servers have none
    room = import_module("muster.coordinator.security.standard_authorizer")
    audit = import_module("muster.coordinator.api.acls.audit")
    authorizer: Any = room.StandardAuthorizer(
        given.super_users, allows_when_open=given.allows_when_open, denied=audit.log_denial
    )
    topics.subscribe_acls(authorizer.take_in)
    if not (given.super_users or given.allows_when_open or topics.state.acls):
        log.warning("nobody may do anything: there are no access control entries and no super.users")
    return cast(Authorizer, authorizer)


def open_tokens(
    config: Config, topics: Topics, clock: Clock, slices: JobQueue, nodes: Iterable[Node]
) -> Callable[[], object] | None:
    """Give these nodes the delegation tokens, if the configuration has a key for them. The returned function stops
    their expiry.
    """
    value = config.value
    if not value("delegation.token.secret.key"):
        return None
    # imported here: hardly any server has delegation tokens
    room = import_module("muster.coordinator.security.sasl.delegation_tokens")
    tokens = room.DelegationTokens(
        value("delegation.token.secret.key"),
        lambda: topics.state.tokens,
        most_lifetime_ms=value("delegation.token.max.lifetime.ms"),
        renewal_ms=value("delegation.token.expiry.time.ms"),
    )
    for node in nodes:
        node.delegation_tokens = tokens
    expiry = import_module("muster.coordinator.api.security.token_expiry")
    interval_ms = value("delegation.token.expiry.check.interval.ms")
    stop: Callable[[], object] = expiry.TokenExpiry(topics, clock, slices, interval_ms).stop
    return stop
