"""The mechanism PLAIN (RFC 4616): a name and a password, as for Kafka's PlainSaslServer."""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Mapping
from typing import Final

from muster.coordinator.security.sasl.exchange import AuthenticationFailed

PLAIN: Final = "PLAIN"
USER_PREFIX: Final = "user_"
"""The prefix of PlainLoginModule options that define users: `user_alice="alice's password"`."""
_NOBODY: Final = hashlib.sha256(b"").digest()


class PlainUsers:
    """The users and digests of their passwords. Digests have one length, so the time of a comparison is no hint."""

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
        """Replace the users by others. This also holds for clients that re-authenticate."""
        self._digests = others._digests

    def knows(self, user: str, password: str) -> bool:
        """Whether this is the user's password. The check of an unknown user takes as long as that of a wrong
        password.
        """
        known = self._digests.get(user)
        is_same = hmac.compare_digest(_digest(password), known or _NOBODY)
        return is_same and known is not None


def _digest(password: str) -> bytes:
    # all digests have one length, so the time of a comparison reveals nothing of a password
    return hashlib.sha256(password.encode("utf-8", "surrogatepass")).digest()


class PlainExchange:
    """The exchange of one client."""

    __slots__ = ("_users", "by_token", "expires_ms", "is_complete", "user")

    def __init__(self, users: PlainUsers) -> None:
        self._users = users
        self.is_complete = False
        self.by_token = False
        self.user = ""
        self.expires_ms: int | None = None

    def evaluate(self, token: bytes) -> bytes:
        """See `Exchange`. It has only one token."""
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
