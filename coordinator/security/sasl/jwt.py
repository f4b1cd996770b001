"""The checks of a signed token (RFC 7519), as in Kafka's BrokerJwtValidator and jose4j."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, Final, NamedTuple, Protocol

from muster.coordinator.security.sasl.jwks import JwkSet, UnknownKey
from muster.coordinator.security.sasl.oauthbearer import BearerToken, InvalidToken

LATEST_S: Final = (1 << 63) // 1000 - 1
"""The latest time in seconds. Later times would exceed the ms numbers that a Java client can read."""


class Expected(NamedTuple):
    """The expected claims of tokens. Without `audiences` tokens must not name any."""

    audiences: frozenset[str] = frozenset()
    issuer: str | None = None
    scope_claim: str = "scope"
    user_claim: str = "sub"
    skew_s: int = 30


class KeySource(Protocol):
    """The source of the keys."""

    def now(self) -> JwkSet:
        """The present keys. Raises InvalidToken while no keys are loaded."""

    def missing(self, kid: str) -> None:
        """A token names an unknown key: the key may be new."""


class JwtCheck:
    """Checks signed tokens."""

    def __init__(self, keys: KeySource, expected: Expected, wall_ms: Callable[[], int]) -> None:
        self._keys = keys
        self._expected = expected
        self._wall_ms = wall_ms

    def __call__(self, token: str) -> BearerToken:
        """The client of this token, and when it expires. Raises InvalidToken."""
        if token.count(".") != 2:
            raise InvalidToken("it has not the three parts of a signed token")
        try:
            payload = self._keys.now().payload(token)
        except UnknownKey as error:
            self._keys.missing(error.kid)
            raise
        claims = claims_of(payload)
        expected = self._expected
        expires_s = _check_times(claims, self._wall_ms() // 1000, expected.skew_s)
        _check_audience(claims.get("aud"), expected.audiences)
        if expected.issuer is not None and claims.get("iss") != expected.issuer:
            raise InvalidToken("its issuer (iss) is not the expected one")
        _check_scopes(claims.get(expected.scope_claim), expected.scope_claim)
        user = claims.get(expected.user_claim)
        if not isinstance(user, str) or not user.strip():
            raise InvalidToken(f"it does not say who the client is ({expected.user_claim})")
        return BearerToken(user.strip(), expires_s * 1000)


def claims_of(payload: bytes) -> dict[str, Any]:
    """The claims. Each may occur only once. Raises InvalidToken."""
    try:
        claims = json.loads(payload, object_pairs_hook=_once)
    except (ValueError, RecursionError):
        raise InvalidToken("its payload is not JSON with each name once") from None
    if not isinstance(claims, dict):
        raise InvalidToken("its payload is no JSON object")
    return claims


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError
    return found


def _check_times(claims: dict[str, Any], now_s: int, skew_s: int) -> int:
    """When the token expires, in seconds. Raises InvalidToken."""
    expires_s, issued_s, begins_s = (_time(claims, name) for name in ("exp", "iat", "nbf"))
    if expires_s is None or issued_s is None:
        raise InvalidToken("it does not say when it was issued (iat) and when it expires (exp)")
    if not 0 <= expires_s <= LATEST_S or issued_s < 0:
        raise InvalidToken("its times are out of range")
    if now_s - skew_s >= expires_s:
        raise InvalidToken("it has expired")
    if expires_s < issued_s or (begins_s is not None and expires_s < begins_s):
        raise InvalidToken("it expires before it begins")
    if begins_s is not None and now_s + skew_s < begins_s:
        raise InvalidToken("it is not valid yet (nbf)")
    return expires_s


def _time(claims: dict[str, Any], name: str) -> int | None:
    value = claims.get(name)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise InvalidToken(f"a time ({name}) is no number")
    try:
        return int(value)
    except (OverflowError, ValueError):
        raise InvalidToken("its times are out of range") from None


def _check_audience(named: object, expected: frozenset[str]) -> None:
    if named is None:
        if expected:
            raise InvalidToken("it names no audience (aud)")
        return
    names = [named] if isinstance(named, str) else named
    if not isinstance(names, list) or not all(isinstance(one, str) for one in names) or expected.isdisjoint(names):
        raise InvalidToken("its audience (aud) is not the expected one")


def _check_scopes(value: object, name: str) -> None:
    """Check that scopes are well formed. A broker checks nothing else of them."""
    scopes = [value] if isinstance(value, str) else value if isinstance(value, list) else []
    if not all(isinstance(one, str) and one.strip() for one in scopes):
        raise InvalidToken(f"a scope ({name}) is empty or no text")
    if len({one.strip() for one in scopes}) != len(scopes):
        raise InvalidToken(f"a scope ({name}) is named twice")
