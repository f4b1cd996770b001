"""The interface of all mechanisms of SASL, the mechanisms of a listener, and PLAIN (RFC 4616, PlainSaslServer)."""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Callable, Mapping
from typing import Final, NamedTuple, Protocol


class AuthenticationFailed(Exception):
    """The client is rejected with this text. None: Kafka's text, which does not reveal whether the user exists."""

    def __init__(self, answer: str | None = None) -> None:
        super().__init__(answer)
        self.answer = answer


class Exchange(Protocol):
    """The authentication of one client by one mechanism."""

    is_complete: bool
    user: str
    """The name of the client, when the exchange is complete."""
    expires_ms: int | None
    """When the client's token expires (wall ms). None means that the token does not expire."""
    by_token: bool
    """Whether the client has presented a delegation token."""

    def evaluate(self, token: bytes) -> bytes:
        """Handle the client's next token, and return the server's token. Raises AuthenticationFailed."""


class Refused:
    """The exchange of a client that must fail: its first token is rejected."""

    is_complete = False
    user = ""

    def __init__(self, answer: str) -> None:
        self.expires_ms: int | None = None
        self.by_token = False
        self._answer = answer

    def evaluate(self, token: bytes) -> bytes:  # noqa: ARG002  # every token is refused
        """See `Exchange`. Raises AuthenticationFailed."""
        raise AuthenticationFailed(self._answer)


class SaslListener(NamedTuple):
    """The SASL settings of a listener. `mechanisms`: functions that begin an exchange, by Kafka's name.
    `max_reauth_ms`: after how long clients of a mechanism re-authenticate; 0: never. `failure_delay_ms`: how long a
    rejected client waits for the answer. `max_receive_bytes`: the largest request of an authentication. `has_tokens`:
    whether clients may use delegation tokens.
    """

    mechanisms: Mapping[str, Callable[[], Exchange]]
    max_reauth_ms: Mapping[str, int]
    failure_delay_ms: int = 100
    max_receive_bytes: int = 524_288
    has_tokens: bool = False


PLAIN: Final = "PLAIN"
USER_PREFIX: Final = "user_"
"""The prefix of PlainLoginModule options that define users: `user_alice="alice's password"`."""
_NOBODY: Final = hashlib.sha256(b"").digest()


class PlainUsers:
    """The users and digests of their passwords, all of one length. So the time of a comparison reveals nothing."""

    __slots__ = ("_digests",)

    def __init__(self, options: Mapping[str, str]) -> None:
        self._digests = {
            name.removeprefix(USER_PREFIX): _digest(password)
            for name, password in options.items()
            if name.startswith(USER_PREFIX)
        }

    def __len__(self) -> int:
        return len(self._digests)

    def become(self, others: PlainUsers) -> None:
        """Replace the users by others. The change also counts for clients that re-authenticate."""
        self._digests = others._digests

    def knows(self, user: str, password: str) -> bool:
        """Whether this is the user's password. An unknown user takes as long as a wrong password."""
        known = self._digests.get(user)
        is_same = hmac.compare_digest(_digest(password), known or _NOBODY)
        return is_same and known is not None


def _digest(password: str) -> bytes:
    # all digests have one length, so the time of a comparison reveals nothing of a password
    return hashlib.sha256(password.encode("utf-8", "surrogatepass")).digest()


class PlainExchange:
    """The exchange of one client by PLAIN."""

    __slots__ = ("_users", "by_token", "expires_ms", "is_complete", "user")

    def __init__(self, users: PlainUsers) -> None:
        self._users = users
        self.is_complete = False
        self.by_token = False
        self.user = ""
        self.expires_ms: int | None = None

    def evaluate(self, token: bytes) -> bytes:
        """See `Exchange`. The exchange has only one token."""
        words = token.decode("utf-8", "replace").split("\0", 3)
        if len(words) != 3:
            raise AuthenticationFailed(f"Invalid SASL/PLAIN response: expected 3 tokens, got {len(words)}")
        authorization_id, user, password = words
        if not user:
            raise AuthenticationFailed("Authentication failed: username not specified")
        if not password:
            raise AuthenticationFailed("Authentication failed: password not specified")
        if not self._users.knows(user, password):
            raise AuthenticationFailed("Authentication failed: Invalid username or password")
        if authorization_id not in ("", user):
            raise AuthenticationFailed(OTHER_ID)
        self.user, self.is_complete = user, True
        return b""


OTHER_ID: Final = "Authentication failed: Client requested an authorization id that is different from username"
