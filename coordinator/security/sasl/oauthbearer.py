"""The mechanism OAUTHBEARER (RFC 7628): a client sends a token, as for Kafka's OAuthBearerSaslServer.

`jwt.py` or `unsecured_jwt.py` checks the token. A client with a refused token gets the reason in JSON. It answers with
one byte, and then it is rejected. Extensions are parsed and have no effect.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final, NamedTuple

from muster.coordinator.security.sasl.exchange import AuthenticationFailed

OAUTHBEARER: Final = "OAUTHBEARER"
MOST_TOKEN_BYTES: Final = 64 << 10
"""The largest token, in bytes. Checking it takes some 5 ms."""
_CONTROL_A: Final = b"\1"
_NAME: Final = r"(?:[\x01-\x2b\x2d-\x3c\x3e-\x7f]|=2C|=3D)+"
_PAIRS: Final = r"(?:[A-Za-z]+=[\x21-\x7e \t\r\n]+\x01)*"
_FIRST: Final = re.compile(rf"n,(?:a=(?P<id>{_NAME}))?,\x01(?P<pairs>{_PAIRS})\x01")
_AUTH: Final = re.compile(r"(?P<scheme>[A-Za-z0-9_]+) +(?P<token>[-_~+/.a-zA-Z0-9]+=*)")


class BearerToken(NamedTuple):
    """The content of a valid token: the client's name, and when it expires (wall ms)."""

    user: str
    expires_ms: int


class InvalidToken(Exception):
    """A token is refused. The text is for the log, and contains nothing of the token. `scope`: the missing scope."""

    def __init__(self, why: str, scope: str | None = None) -> None:
        super().__init__(why)
        self.scope = scope


class OAuthBearerExchange:
    """The exchange of one client."""

    __slots__ = ("_check", "_refusal", "_refused", "by_token", "expires_ms", "is_complete", "user")

    def __init__(self, check: Callable[[str], BearerToken], refused: Callable[[str], object] = str) -> None:
        """`check` raises InvalidToken. `refused` gets the reason."""
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
    """Whether the text has no halves of surrogate pairs. JSON may have them, but no answer and no log may."""
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
    # if a name occurs twice, the last one counts
    pairs = dict(pair.split("=", 1) for pair in found["pairs"].split("\1") if pair)
    auth = _AUTH.fullmatch(pairs.get("auth", ""))
    if auth is None or auth["scheme"].lower() != "bearer":
        raise AuthenticationFailed
    return found["id"] or "", auth["token"]
