"""What all mechanisms have in common, and the mechanisms of one listener."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple, Protocol


class AuthenticationFailed(Exception):
    """The client is rejected. The client gets the text. None stands for Kafka's text for wrong credentials, which does
    not reveal whether the user exists.
    """

    def __init__(self, told: str | None = None) -> None:
        super().__init__(told)
        self.told = told


class Exchange(Protocol):
    """The authentication of one client by one mechanism."""

    is_complete: bool
    user: str
    """The name of the client, when the exchange is complete."""
    expires_ms: int | None
    """When the client's token expires (wall ms). None means never."""
    by_token: bool
    """Whether the client has presented a delegation token."""

    def evaluate(self, token: bytes) -> bytes:
        """Handle the client's next token, and return the server's. Raises AuthenticationFailed."""


class Refused:
    """The exchange of a client that must fail: its first token is rejected."""

    is_complete = False
    user = ""

    def __init__(self, told: str) -> None:
        self.expires_ms: int | None = None
        self.by_token = False
        self._told = told

    def evaluate(self, token: bytes) -> bytes:  # noqa: ARG002 - whatever it is
        """Raises AuthenticationFailed."""
        raise AuthenticationFailed(self._told)


class SaslListener(NamedTuple):
    """The SASL settings of a listener. `mechanisms`: what begins an exchange, by Kafka's name. `max_reauth_ms`: after
    how long a client of each mechanism has to re-authenticate, 0 for never. `failure_delay_ms`: how long a rejected
    client waits for the answer. `max_receive_bytes`: the largest request until then. `has_tokens`: clients may use
    delegation tokens. Tokens expire, so these clients have to re-authenticate.
    """

    mechanisms: Mapping[str, Callable[[], Exchange]]
    max_reauth_ms: Mapping[str, int]
    failure_delay_ms: int = 100
    max_receive_bytes: int = 524_288
    has_tokens: bool = False
