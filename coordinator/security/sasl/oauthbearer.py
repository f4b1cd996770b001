"""The mechanism OAUTHBEARER (RFC 7628): a client sends a token, as for Kafka's OAuthBearerSaslServer.

`jwt.py` checks signed tokens. Tokens without a signature are for tests, and accepted as by Kafka's
OAuthBearerUnsecuredValidatorCallbackHandler. A refused client gets the reason in JSON, answers with one byte, and is
rejected. Extensions have no effect.
"""

from __future__ import annotations

import base64
import binascii
import json
import math
import re
from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple

from muster.coordinator.security.sasl.exchange import AuthenticationFailed

OAUTHBEARER: Final = "OAUTHBEARER"
MAX_TOKEN_BYTES: Final = 64 << 10
"""The largest token, in bytes. The check of such a token takes some 5 ms."""
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
    """The exchange of one client by OAUTHBEARER."""

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
        if token == _CONTROL_A and self._refusal:
            raise AuthenticationFailed(self._refusal)
        self._refusal = ""
        wanted, bearer = _read(token)
        try:
            if len(bearer) > MAX_TOKEN_BYTES:
                raise InvalidToken(f"it has more than {MAX_TOKEN_BYTES} bytes")
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
    """Whether the text has no halves of surrogate pairs. JSON may have such halves, but no answer and no log may."""
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
    # if a name occurs twice, the last value counts
    pairs = dict(pair.split("=", 1) for pair in found["pairs"].split("\1") if pair)
    auth = _AUTH.fullmatch(pairs.get("auth", ""))
    if auth is None or auth["scheme"].lower() != "bearer":
        raise AuthenticationFailed
    return found["id"] or "", auth["token"]


_SCOPE: Final = re.compile(r"[\x21\x23-\x5b\x5d-\x7e]+")
_URL: Final = str.maketrans("-_", "+/")
_PREFIX: Final = "unsecuredValidator"
_MAX_SKEW_MS: Final = (1 << 31) - 1
"""The largest clock skew of unsigned tokens: an int of Java."""


class BadOption(ValueError):
    """An option of the login module is invalid. The text names the option."""


class UnsecuredOptions(NamedTuple):
    """The options of the login module for tokens without a signature."""

    user_claim: str = "sub"
    scope_claim: str = "scope"
    scopes: tuple[str, ...] = ()
    skew_ms: int = 0

    @classmethod
    def read(cls, options: Mapping[str, str]) -> UnsecuredOptions:
        """Read the options of a login module. Raises BadOption."""

        def option(name: str, default: str = "") -> str:
            return options.get(_PREFIX + name, "").strip() or default

        scopes = tuple(option("RequiredScope").split())
        if not all(map(_SCOPE.fullmatch, scopes)):
            raise BadOption(f"{_PREFIX}RequiredScope has a scope with a letter that none may have")
        skew = option("AllowableClockSkewMs", "0")
        if not re.fullmatch(r"\+?[0-9]{1,10}", skew, re.ASCII) or int(skew) > _MAX_SKEW_MS:
            raise BadOption(f"{_PREFIX}AllowableClockSkewMs is not a whole number of at least 0")
        return cls(option("PrincipalClaimName", "sub"), option("ScopeClaimName", "scope"), scopes, int(skew))


class UnsecuredCheck:
    """Checks tokens without a signature."""

    def __init__(self, options: UnsecuredOptions, wall_ms: Callable[[], int]) -> None:
        self._options = options
        self._wall_ms = wall_ms

    def __call__(self, token: str) -> BearerToken:
        """The client of this token, and when it expires. Raises InvalidToken."""
        parts = token.split(".")
        if len(parts) != 3 or not all(parts[:2]):
            raise InvalidToken("it does not have the three parts of an unsecured token")
        header, claims = _object(parts[0]), _object(parts[1])
        if header.get("alg") != "none" or parts[2]:
            raise InvalidToken("it is not an unsecured token")
        options, now_ms = self._options, self._wall_ms()
        expires_s, issued_s = _seconds(claims, "exp"), _seconds(claims, "iat")
        user = claims.get(options.user_claim)
        if not isinstance(user, str) or not user.strip():
            raise InvalidToken(f"it does not say who the client is ({options.user_claim})")
        scopes = _scopes(claims, options.scope_claim)
        if expires_s is None:
            raise InvalidToken("it does not say when it expires (exp)")
        if issued_s is not None and (1000 * issued_s > now_ms + options.skew_ms or expires_s <= issued_s):
            raise InvalidToken("it is issued in the future, or after it expires")
        if now_ms - options.skew_ms >= 1000 * expires_s:
            raise InvalidToken("it has expired")
        if not scopes.issuperset(options.scopes):
            raise InvalidToken("it lacks a scope that is required", scope=f"[{', '.join(options.scopes)}]")
        return BearerToken(user, math.floor(expires_s * 1000 + 0.5))


def _object(part: str) -> dict[str, Any]:
    """A JSON object with values of Kafka's types: numbers, lists of texts, and text for everything else."""
    try:
        if "+" in part or "/" in part:
            raise ValueError
        found = json.loads(base64.b64decode(part.translate(_URL) + "=" * (-len(part) % 4), validate=True))
    except (ValueError, RecursionError, binascii.Error):
        raise InvalidToken("a part of it is not JSON in base64url") from None
    if not isinstance(found, dict):
        raise InvalidToken("a part of it is no JSON object")
    return {name: _converted(value) for name, value in found.items()}


def _converted(value: object) -> object:
    if isinstance(value, list):
        return [_text(one) for one in value]
    return value if isinstance(value, int | float) and not isinstance(value, bool) else _text(value)


def _text(value: object) -> str:
    if isinstance(value, str):
        return value
    return "" if isinstance(value, dict | list) else json.dumps(value)


def _seconds(claims: Mapping[str, Any], name: str) -> float | None:
    value = claims.get(name)
    if value is None:
        return None
    try:
        seconds = float(value) if isinstance(value, int | float) else math.nan
    except OverflowError:
        seconds = math.nan
    if not abs(seconds) < 1e15:
        raise InvalidToken(f"a time ({name}) is no number, or out of range")
    return seconds


def _scopes(claims: Mapping[str, Any], name: str) -> set[str]:
    value = claims.get(name, [])
    if isinstance(value, int | float):
        raise InvalidToken(f"the scope ({name}) is neither a text nor a list")
    return {one.strip() for one in ([value] if isinstance(value, str) else value) if one.strip()}
