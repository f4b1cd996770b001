"""TLS and SASL of the listeners of a node, and their renewal while the node runs.

Modules are imported when a listener needs them: most servers have neither TLS nor SASL.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import TYPE_CHECKING, Any

import structlog

from muster.coordinator.config import Listener as ConfiguredListener
from muster.coordinator.log import LogManager
from muster.coordinator.net.listener import Listener, Security
from muster.coordinator.properties.live import Live
from muster.coordinator.server.machine import Machine
from muster.coordinator.system.clock import Clock
from muster.coordinator.topics.topics import Topics

if TYPE_CHECKING:
    from muster.coordinator.security.sasl.delegation_tokens import DelegationTokens

log = structlog.get_logger("muster.server")


class ListenerSecurity:
    """The security of the listeners of one node. `renewals`: each reads the certificates or the users of a listener
    again when they have changed.
    """

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
        """`post`: runs a callable on the event loop soon, from any thread."""
        self.renewals: list[Callable[[], object]] = []
        self._live = live
        self._machine = machine
        self._clock = clock
        self._post = post
        self._topics = topics
        self._logs = logs
        self._tokens = tokens
        self._plain_users: dict[str, Any] = {}
        """PLAIN users by listener name."""
        self._bearers: dict[str, tuple[Any, Any]] = {}
        """The token checkers of listeners, each with its settings."""

    def renew(self) -> None:
        """Read everything that has changed."""
        for renew in self.renewals:
            renew()

    def stop(self) -> None:
        """Stop: no new connections arrive."""
        for _, bearer in self._bearers.values():
            bearer.stop()
        self._bearers.clear()
        self.renewals.clear()
        self._live.checks.clear()

    def secured(self, listener: ConfiguredListener) -> Security:
        """The security of a listener with TLS or SASL."""
        room = import_module("muster.coordinator.config.security")
        sasl = self._sasl_listener(listener) if listener.has_sasl else None
        if not listener.has_tls:
            return Security(sasl=sasl)
        found = import_module("muster.coordinator.net.tls.renewal").ListenerTls(
            listener.name, room.tls_settings(listener, self._live)
        )

        def check(live: Live) -> None:
            try:
                found.check(room.tls_settings(listener, live))
            except room.TlsError as error:
                raise room.refusal(listener, error) from error

        self._live.checks.append(check)
        self.renewals.append(lambda: found.renew(room.tls_settings(listener, self._live)))
        return Security(found, sasl)

    def _sasl_listener(self, listener: ConfiguredListener) -> Any:
        room = import_module("muster.coordinator.config.sasl")
        settings = room.sasl_settings(listener, self._live)
        users = self._plain_users.setdefault(listener.name, settings.users)
        users.become(settings.users)
        settings = settings._replace(users=users)
        begin_bearer = None if settings.bearer is None else self._bearer(listener.name, settings.bearer).begin
        return room.sasl_listener(
            settings, self._credential, self._machine.draw_uuid_text, self._scram_secret(), begin_bearer,
            self._tokens(), self._iterations(),
        )  # fmt: skip

    def _scram_secret(self) -> bytes:
        """The secret for decoy credentials, which survives a restart."""
        room = import_module("muster.coordinator.config.decoy_credentials")
        secret: bytes = room.secret(self._logs.storage, self._machine.draw_uuid)
        return secret

    def _iterations(self) -> Any:
        return import_module("muster.coordinator.config.decoy_credentials").Iterations(lambda: self._topics.state)

    def _bearer(self, listener: str, settings: Any) -> Any:
        """The token checker of a listener. It is kept while its settings are the same, because it has fetched keys."""
        before, bearer = self._bearers.get(listener, (None, None))
        if before != settings:
            made = import_module("muster.coordinator.config.oauthbearer").Bearer(
                listener, settings, self._clock, self._post
            )
            if bearer is not None:
                bearer.stop()
            bearer = made
            self._bearers[listener] = settings, bearer
        return bearer

    def watch(self, given: ConfiguredListener, listener: Listener) -> None:
        """Renew the SASL settings of a listener when they change."""
        room = import_module("muster.coordinator.config.sasl")
        seen = room.stamp(given, self._live)

        def check(live: Live) -> None:
            try:
                room.sasl_settings(given, live)
            except room.ConfigError as error:
                raise room.refusal(given, error) from error

        def renew() -> None:
            nonlocal seen
            now = room.stamp(given, self._live)
            if now == seen:
                return
            seen = now
            try:
                listener.set_sasl(self._sasl_listener(given))
            except room.ConfigError as error:
                log.error("what clients have to show cannot be changed to this, it stays as it was",
                          listener=given.name, why=str(error))  # fmt: skip
            else:
                log.info("what clients have to show was read anew", listener=given.name)

        self._live.checks.append(check)
        self.renewals.append(renew)

    def _credential(self, user: str, kind: int) -> Any:
        """A SCRAM credential, by user and type of the mechanism."""
        return self._topics.state.scram.get((user, kind))
