"""The mechanism OAUTHBEARER (RFC 7628): a client brings a token, as Kafka's OAuthBearerSaslServer takes it.

What a token has to be is the business of whoever checks it (`jwt.py`, `unsecured_jwt.py`). A client whose token is
refused is told so in JSON, answers with one byte, and is rejected then. Extensions are read and mean nothing.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final, NamedTuple

from muster.coordinator.security.sasl.exchange import AuthenticationFailed

OAUTHBEARER: Final = "OAUTHBEARER"
MOST_TOKEN_BYTES: Final = 64 << 10
"""Of a token; to check so much takes some 5 ms."""
_CONTROL_A: Final = b"\1"
_NAME: Final = r"(?:[\x01-\x2b\x2d-\x3c\x3e-\x7f]|=2C|=3D)+"
_PAIRS: Final = r"(?:[A-Za-z]+=[\x21-\x7e \t\r\n]+\x01)*"
_FIRST: Final = re.compile(rf"n,(?:a=(?P<id>{_NAME}))?,\x01(?P<pairs>{_PAIRS})\x01")
_AUTH: Final = re.compile(r"(?P<scheme>[A-Za-z0-9_]+) +(?P<token>[-_~+/.a-zA-Z0-9]+=*)")


class BearerToken(NamedTuple):
    """What a good token says: who the client is, and until when (wall ms)."""

    user: str
    expires_ms: int


class InvalidToken(Exception):
    """A token is refused. Its text is for the log, and has nothing of the token; `scope`: the one that is missing."""

    def __init__(self, why: str, scope: str | None = None) -> None:
        super().__init__(why)
        self.scope = scope


class OAuthBearerExchange:
    """One client's."""

    __slots__ = ("_check", "_refusal", "_refused", "by_token", "expires_ms", "is_complete", "user")

    def __init__(self, check: Callable[[str], BearerToken], refused: Callable[[str], object] = str) -> None:
        """`check` raises InvalidToken; `refused` is told why."""
        self._check = check
        self._refused = refused
        self._refusal = ""
        self.is_complete = False
        self.by_token = False
        self.user = ""
        self.expires_ms: int | None = None

    def evaluate(self, token: bytes) -> bytes:
        """See `Exchange`."""
        if token == _CONTROL_A and self._refusal:
            raise AuthenticationFailed(self._refusal)
        self._refusal = ""
        wanted, bearer = _read(token)
        try:
            if len(bearer) > MOST_TOKEN_BYTES:
                raise InvalidToken(f"it has more than {MOST_TOKEN_BYTES} bytes")
            found = self._check(bearer)
            if not _is_text(found.user):
                raise InvalidToken("its name of the client is no text")
        except InvalidToken as error:
            self._refused(str(error))
            self._refusal = '{"status":"invalid_token"}'
            if error.scope is not None:
                self._refusal = f'{{"status":"insufficient_scope", "scope":"{error.scope}"}}'
            return self._refusal.encode()
        if wanted not in ("", found.user):
            raise AuthenticationFailed(
                f"Authentication failed: Client requested an authorization id ({wanted}) that is different from the "
                f"token's principal name ({found.user})"
            )
        self.user, self.expires_ms, self.is_complete = found.user, found.expires_ms, True
        return b""


def _is_text(name: str) -> bool:
    """JSON can hold halves of characters, which no answer and no log can."""
    try:
        name.encode()
    except UnicodeEncodeError:
        return False
    return True


def _read(message: bytes) -> tuple[str, str]:
    """The authorization id and the token of a client's first message. Raises AuthenticationFailed."""
    found = _FIRST.fullmatch(message.decode("utf-8", "replace"))
    if found is None:
        raise AuthenticationFailed
    # of a name that comes twice the last one counts
    pairs = dict(pair.split("=", 1) for pair in found["pairs"].split("\1") if pair)
    auth = _AUTH.fullmatch(pairs.get("auth", ""))
    if auth is None or auth["scheme"].lower() != "bearer":
        raise AuthenticationFailed
    return found["id"] or "", auth["token"]
