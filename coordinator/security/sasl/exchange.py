"""What all mechanisms have in common, and those of one listener."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple, Protocol


class AuthenticationFailed(Exception):
    """The client is rejected. Its text is told to the client; None: the one that Kafka has for wrong credentials, which
    does not tell whether there is such a user.
    """

    def __init__(self, told: str | None = None) -> None:
        super().__init__(told)
        self.told = told


class Exchange(Protocol):
    """The authentication of one client by one mechanism."""

    is_complete: bool
    user: str
    """Who the client is, when it is complete."""
    expires_ms: int | None
    """Until when what it has shown is good (wall ms); None: for ever."""
    by_token: bool
    """It has shown a delegation token."""

    def evaluate(self, token: bytes) -> bytes:
        """Take on the client's next token; return the server's. Raises AuthenticationFailed."""


class Refused:
    """The exchange of a client that cannot have one: its first token fails."""

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
    """What a listener asks of its clients. `mechanisms`: what begins an exchange, by Kafka's name; `max_reauth_ms`: of
    each mechanism, after how long a client has to authenticate again, 0 for never; `failure_delay_ms`: how long a
    client that was rejected waits for the answer; `max_receive_bytes`: of a request until then; `has_tokens`: clients
    may show delegation tokens, also when they authenticate again: these end.
    """

    mechanisms: Mapping[str, Callable[[], Exchange]]
    max_reauth_ms: Mapping[str, int]
    failure_delay_ms: int = 100
    max_receive_bytes: int = 524_288
    has_tokens: bool = False
