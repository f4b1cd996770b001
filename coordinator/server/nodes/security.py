"""The security of the nodes: authorizer, delegation tokens, TLS and SASL. Imports are late: few servers need them."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, cast

import structlog

from muster.coordinator.api.node import Node
from muster.coordinator.config import Config, ConfigError
from muster.coordinator.config import Listener as ConfiguredListener
from muster.coordinator.log import LogManager
from muster.coordinator.net.listener import Listener, Security
from muster.coordinator.properties.live import Live
from muster.coordinator.security.authorizer import Authorizer
from muster.coordinator.server.machine import Machine
from muster.coordinator.system.clock import Clock
from muster.coordinator.system.jobs import JobQueue
from muster.coordinator.topics.topics import Topics

if TYPE_CHECKING:
    from muster.coordinator.config.oauthbearer import Bearer, BearerSettings
    from muster.coordinator.security.sasl.delegation_tokens import DelegationTokens
    from muster.coordinator.security.sasl.exchange import PlainUsers, SaslListener

log = structlog.get_logger("muster.server")


def make_authorizer(config: Config, topics: Topics) -> Authorizer | None:
    """The configured authorizer, with the access control entries. None means that everybody may do everything."""
    given = config.authorization
    if given is None:
        return None
    from muster.coordinator.api.security.acls import log_denial
    from muster.coordinator.security.standard_authorizer import StandardAuthorizer

    authorizer = StandardAuthorizer(given.super_users, allows_when_open=given.allows_when_open, denied=log_denial)
    topics.subscribe_acls(authorizer.update)
    if not (given.super_users or given.allows_when_open or topics.state.acls):
        log.warning("nobody may do anything: there are no access control entries and no super.users")
    return authorizer


def make_delegation_tokens(
    config: Config, topics: Topics, clock: Clock, job_queue: JobQueue, nodes: Iterable[Node]
) -> Callable[[], object] | None:
    """Give these nodes delegation tokens, if a key is configured. Returns a function that stops token expiry."""
    secret = config.value("delegation.token.secret.key")
    if not secret:
        return None
    from muster.coordinator.api.security.delegation_tokens import TokenExpiry
    from muster.coordinator.security.sasl.delegation_tokens import DelegationTokens

    tokens = DelegationTokens(
        str(secret),
        lambda: topics.state.tokens,
        max_lifetime_ms=cast(int, config.value("delegation.token.max.lifetime.ms")),
        renewal_ms=cast(int, config.value("delegation.token.expiry.time.ms")),
    )
    for node in nodes:
        node.delegation_tokens = tokens
    interval_ms = cast(int, config.value("delegation.token.expiry.check.interval.ms"))
    return TokenExpiry(topics, clock, job_queue, interval_ms).stop


class ListenerSecurity:
    """The security of one node's listeners. `renewals`: functions that read changed certificates or users again."""

    def __init__(
        self,
        live: Live,
        machine: Machine,
        clock: Clock,
        post: Callable[[Callable[[], object]], object],
        topics: Topics,
        logs: LogManager,
        tokens: Callable[[], DelegationTokens | None],
    ) -> None:
        self.renewals: list[Callable[[], object]] = []
        self._live = live
        self._machine = machine
        self._clock = clock
        self._post = post
        self._topics = topics
        self._logs = logs
        self._tokens = tokens
        self._plain_users: dict[str, PlainUsers] = {}
        self._bearers: dict[str, tuple[BearerSettings, Bearer]] = {}
        """The token checkers of listeners, each with its settings."""

    def renew(self) -> None:
        """Read changed certificates and users again."""
        for renew in self.renewals:
            renew()

    def stop(self) -> None:
        """Stop watching settings and fetching keys, because no new connections arrive."""
        for _, bearer in self._bearers.values():
            bearer.stop()
        self._bearers.clear()
        self.renewals.clear()
        self._live.checks.clear()

    def secured(self, listener: ConfiguredListener) -> Security:
        """The security of a listener with TLS or SASL."""
        sasl = self._sasl_listener(listener) if listener.has_sasl else None
        if not listener.has_tls:
            return Security(sasl=sasl)
        from muster.coordinator.config.security import refusal, tls_settings
        from muster.coordinator.net.tls.context import ListenerTls
        from muster.coordinator.net.tls.settings import TlsError

        tls = ListenerTls(listener.name, tls_settings(listener, self._live))

        def check(live: Live) -> None:
            try:
                tls.check(tls_settings(listener, live))
            except TlsError as error:
                raise refusal(listener, f"Validation of dynamic config update of SSLFactory failed: {error}") from error

        self._live.checks.append(check)
        self.renewals.append(lambda: tls.renew(tls_settings(listener, self._live)))
        return Security(tls, sasl)

    def _sasl_listener(self, listener: ConfiguredListener) -> SaslListener:
        from muster.coordinator.config.scram_users import DecoyIterations, decoy_secret
        from muster.coordinator.config.security import sasl_listener, sasl_settings

        settings = sasl_settings(listener, self._live)
        users = self._plain_users.setdefault(listener.name, settings.users)
        users.become(settings.users)
        return sasl_listener(
            settings._replace(users=users),
            self._credential,
            self._machine.draw_uuid_text,
            decoy_secret(self._logs.storage, self._machine.draw_uuid),
            None if settings.bearer is None else self._bearer(listener.name, settings.bearer).begin,
            self._tokens(),
            DecoyIterations(lambda: self._topics.state),
        )

    def _bearer(self, listener: str, settings: BearerSettings) -> Bearer:
        """The token checker of a listener. The checker is kept while its settings stay, because it has fetched keys."""
        from muster.coordinator.config.oauthbearer import Bearer

        found = self._bearers.get(listener)
        if found is not None and found[0] == settings:
            return found[1]
        bearer = Bearer(listener, settings, self._clock, self._post)
        if found is not None:
            found[1].stop()
        self._bearers[listener] = settings, bearer
        return bearer

    def watch(self, given: ConfiguredListener, listener: Listener) -> None:
        """Watch the SASL settings of a listener, and apply changed settings to new connections."""
        from muster.coordinator.config.security import refusal, sasl_settings, stamp

        seen = stamp(given, self._live)

        def check(live: Live) -> None:
            try:
                sasl_settings(given, live)
            except ConfigError as error:
                raise refusal(given, error) from error

        def renew() -> None:
            nonlocal seen
            now = stamp(given, self._live)
            if now == seen:
                return
            seen = now
            try:
                listener.set_sasl(self._sasl_listener(given))
            except ConfigError as error:
                log.error("the SASL settings cannot be changed to this, the old ones are kept",
                          listener=given.name, why=str(error))  # fmt: skip
            else:
                log.info("the SASL settings were read again", listener=given.name)

        self._live.checks.append(check)
        self.renewals.append(renew)

    def _credential(self, user: str, kind: int) -> Any:
        return self._topics.state.scram.get((user, kind))
