"""How far the authentication of a connection is: its states and every legal transition, as data.

The steps follow Kafka's SaslServerAuthenticator. Which mechanisms there are, and what a token means, is not known here.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from muster.coordinator.security.principal import ANONYMOUS, KafkaPrincipal

if TYPE_CHECKING:
    from muster.coordinator.security.sasl.exchange import Exchange, SaslListener

NOT_REQUIRED: Final = "not required"
"""The listener asks for none: every request is handled, now and later."""
HANDSHAKE: Final = "handshake"
"""SaslHandshake is expected; ApiVersions may come before it."""
AUTHENTICATE: Final = "authenticate"
"""A mechanism was chosen: SaslAuthenticate is expected, as often as the mechanism needs."""
COMPLETE: Final = "complete"
FAILED: Final = "failed"
"""The client is told so, then the connection closes."""
REAUTHENTICATE: Final = "re-authenticate"
"""As `AUTHENTICATE`, on a connection that was authenticated before (KIP-368): other requests are handled meanwhile."""
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
"""Event -> state -> the state after it; whatever is not here cannot happen."""


class IllegalTransition(RuntimeError):
    """A mistake of the program: `event` cannot happen to an authentication in `state`. Nothing has changed."""

    def __init__(self, state: str, event: str) -> None:
        super().__init__(f"an authentication is at {state!r}: {event!r} cannot happen")


class Authentication:
    """The authentication of one connection, and its principal, which may change until the authentication is complete:
    so nothing else keeps the principal.
    """

    __slots__ = (
        "began_ms",
        "by_token",
        "exchange",
        "lifetime_ms",
        "mechanism",
        "on_proven",
        "principal",
        "sasl",
        "state",
        "takes_raw",
    )

    def __init__(
        self, state: str = HANDSHAKE, principal: KafkaPrincipal = ANONYMOUS, sasl: SaslListener | None = None
    ) -> None:
        self.state = state
        self.principal = principal
        self.sasl = sasl
        """What its listener asks for; None: nothing of SASL."""
        self.mechanism = ""
        self.exchange: Exchange | None = None
        """The one that is under way."""
        self.takes_raw = False
        """Whether tokens come without a request around them, as after SaslHandshake 0."""
        self.by_token = False
        """The client has shown a delegation token: it may have no other one made."""
        self.lifetime_ms: int | None = None
        """After how long the client has to authenticate again; None: never."""
        self.began_ms: int | None = None
        """When it last began to authenticate again."""
        self.on_proven: Callable[[], object] | None = None
        """Called when the client has proven again who it is."""

    @property
    def is_complete(self) -> bool:
        """Every request may be handled."""
        return self.state in (NOT_REQUIRED, COMPLETE, REAUTHENTICATE)

    def happens(self, event: str) -> None:
        """Change the state as `TRANSITIONS` says. Raises IllegalTransition."""
        state = TRANSITIONS[event].get(self.state)
        if state is None:
            raise IllegalTransition(self.state, event)
        self.state = state

    def proven(self, principal: KafkaPrincipal) -> None:
        """The client is `principal`. As on Kafka, a client cannot become another one: that fails."""
        if self.state is REAUTHENTICATE and principal != self.principal:
            self.happens(REJECTED)
            return
        self.happens(PROVEN)
        self.principal = principal
        if self.on_proven is not None:
            self.on_proven()


WITHOUT_AUTHENTICATION: Final = Authentication(NOT_REQUIRED)
"""Of all connections of listeners that ask for none: nothing can happen to it, so they share it."""
