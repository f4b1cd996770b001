"""The authentication of a connection: its states and every legal transition, as in Kafka's SaslServerAuthenticator."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from muster.coordinator.security.authorizer import ANONYMOUS, KafkaPrincipal

if TYPE_CHECKING:
    from muster.coordinator.security.sasl.exchange import Exchange, SaslListener


NOT_REQUIRED: Final = "not required"
"""The listener requires no authentication: every request is handled, now and later."""
HANDSHAKE: Final = "handshake"
"""SaslHandshake is expected; ApiVersions may come before it."""
AUTHENTICATE: Final = "authenticate"
"""A mechanism was chosen: SaslAuthenticate is expected, as often as the mechanism needs."""
COMPLETE: Final = "complete"
FAILED: Final = "failed"
"""The client gets the error, and then the connection closes."""
REAUTHENTICATE: Final = "re-authenticate"
"""The client authenticates again, as in `AUTHENTICATE` (KIP-368): other requests are handled meanwhile."""
STATES: Final = (NOT_REQUIRED, HANDSHAKE, AUTHENTICATE, COMPLETE, FAILED, REAUTHENTICATE)

MECHANISM_CHOSEN: Final = "a mechanism is chosen"
CHALLENGED: Final = "the mechanism needs another token"
PROVEN: Final = "the client has proven who it is"
REJECTED: Final = "the client is rejected"

TRANSITIONS: Final[Mapping[str, Mapping[str, str]]] = MappingProxyType(
    {
        MECHANISM_CHOSEN: {HANDSHAKE: AUTHENTICATE, COMPLETE: REAUTHENTICATE},
        CHALLENGED: {AUTHENTICATE: AUTHENTICATE, REAUTHENTICATE: REAUTHENTICATE},
        PROVEN: {AUTHENTICATE: COMPLETE, REAUTHENTICATE: COMPLETE},
        REJECTED: {HANDSHAKE: FAILED, AUTHENTICATE: FAILED, REAUTHENTICATE: FAILED},
    }
)
"""Event -> state -> the next state. An event that is missing here cannot happen."""


class IllegalTransition(RuntimeError):
    """A bug: `event` cannot happen to an authentication in `state`. Nothing has changed."""

    def __init__(self, state: str, event: str) -> None:
        super().__init__(f"an authentication is at {state!r}: {event!r} cannot happen")


class Authentication:
    """The authentication of one connection, and its principal. No other object keeps the principal: it may change."""

    __slots__ = (
        "began_ms", "by_token", "exchange", "lifetime_ms", "mechanism", "on_proven", "principal", "sasl", "state",
        "takes_raw",
    )  # fmt: skip

    def __init__(
        self, state: str = HANDSHAKE, principal: KafkaPrincipal = ANONYMOUS, sasl: SaslListener | None = None
    ) -> None:
        self.state = state
        self.principal = principal
        self.sasl = sasl
        """The SASL settings of the connection's listener. None means that the listener has no SASL."""
        self.mechanism = ""
        self.exchange: Exchange | None = None
        self.takes_raw = False
        """Whether tokens arrive without a request around them, as after SaslHandshake 0."""
        self.by_token = False
        """Whether the client has authenticated with a delegation token, and so may not create another token."""
        self.lifetime_ms: int | None = None
        """After how many ms the client has to re-authenticate. None means that no re-authentication is due."""
        self.began_ms: int | None = None
        """When the client last began to re-authenticate."""
        self.on_proven: Callable[[], object] | None = None
        """Called when the client has re-authenticated."""

    @property
    def is_complete(self) -> bool:
        """Whether every request may be handled."""
        return self.state in (NOT_REQUIRED, COMPLETE, REAUTHENTICATE)

    def happens(self, event: str) -> None:
        """Change the state as `TRANSITIONS` says. Raises IllegalTransition."""
        state = TRANSITIONS[event].get(self.state)
        if state is None:
            raise IllegalTransition(self.state, event)
        self.state = state

    def proven(self, principal: KafkaPrincipal) -> None:
        """Note that the client is `principal`. As on Kafka, re-authentication as another principal fails."""
        if self.state is REAUTHENTICATE and principal != self.principal:
            self.happens(REJECTED)
            return
        self.happens(PROVEN)
        self.principal = principal
        if self.on_proven is not None:
            self.on_proven()


WITHOUT_AUTHENTICATION: Final = Authentication(NOT_REQUIRED)
"""All connections of listeners without authentication share this object: no event can change it."""
