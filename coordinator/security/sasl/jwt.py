"""Signed tokens (RFC 7519), as Kafka's BrokerJwtValidator and jose4j check them.

An identity provider publishes its keys (JSON Web Key Set, RFC 7517). The type of a key never comes from the token: a
public key is no shared secret. As in jose4j, a key is chosen by id, type and use, then by algorithm and curve.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, Final, NamedTuple, Protocol

from jwt import PyJWK, PyJWS
from jwt.exceptions import PyJWTError

from muster.coordinator.security.sasl.oauthbearer import BearerToken, InvalidToken

MAX_KEYS: Final = 1_000
"""The most keys of one document."""
_RSA: Final = ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512")
TYPES: Final[Mapping[str, tuple[str, str | None]]] = MappingProxyType(
    {
        **dict.fromkeys(_RSA, ("RSA", None)),
        "ES256": ("EC", "P-256"),
        "ES384": ("EC", "P-384"),
        "ES512": ("EC", "P-521"),
        "EdDSA": ("OKP", None),
        "HS256": ("oct", None),
        "HS384": ("oct", None),
        "HS512": ("oct", None),
    }
)
"""Algorithm -> type and curve of the keys that it may use. Other algorithms are refused, "none" above all."""
# PyJWT refuses RSA keys below 2,048 bits, and secrets that are shorter than their hash
_JWS: Final = PyJWS(options={"enforce_minimum_key_length": True})


class BadKeys(ValueError):
    """The document has no valid keys. The text says why, and contains nothing of the document."""


class UnknownKey(InvalidToken):
    """No key has the id that a token names. `kid`: the named id."""

    def __init__(self, why: str, kid: str) -> None:
        super().__init__(why)
        self.kid = kid


class Jwk(NamedTuple):
    """One key of a document. `data`: the key as in the document."""

    kid: str | None
    type: str
    algorithm: str | None
    curve: str | None
    data: dict[str, Any]


class JwkSet:
    """See the module."""

    def __init__(self, text: str | bytes) -> None:
        """Parse a document. Raises BadKeys."""
        self._made: dict[tuple[int, str], PyJWK] = {}
        self.keys = tuple(_read(text))

    def payload(self, token: str) -> bytes:
        """The payload of a token that one of the keys has signed. Raises InvalidToken."""
        try:
            header = _JWS.get_unverified_header(token)
            algorithm, kid = header.get("alg"), header.get("kid")
            if "crit" in header or header.get("b64") is False or str(header.get("cty", "")).lower() == "jwt":
                raise InvalidToken("its header asks for what is not supported (crit, b64 or cty)")
            if not isinstance(algorithm, str) or algorithm not in TYPES:
                raise InvalidToken("its algorithm is not one of those for signatures")
            if kid is not None and not isinstance(kid, str):
                raise InvalidToken("the id of its key is no text")
            key = self._key(self._choose(kid, algorithm), algorithm)
            found = _JWS.decode_complete(token, key, algorithms=[algorithm])
        except PyJWTError as error:
            raise InvalidToken(f"its signature cannot be checked or is wrong ({type(error).__name__})") from error
        payload: bytes = found["payload"]
        return payload

    def _choose(self, kid: str | None, algorithm: str) -> int:
        kind, curve = TYPES[algorithm]
        fit = [at for at, key in enumerate(self.keys) if key.type == kind and kid in (None, key.kid)]
        if len(fit) > 1:
            fit = [at for at in fit if self.keys[at].algorithm in (None, algorithm)]
        if len(fit) > 1 and curve is not None:
            fit = [at for at in fit if self.keys[at].curve == curve]
        if not fit:
            raise UnknownKey(f"none of the {len(self.keys)} keys is the one that it asks for", kid or "")
        return fit[0]

    def _key(self, at: int, algorithm: str) -> PyJWK:
        """One key for one algorithm, cached: to make a key takes longer than to use it."""
        made = self._made.get((at, algorithm))
        if made is None:
            made = self._made[at, algorithm] = PyJWK(self.keys[at].data, algorithm)
        return made


def _read(text: str | bytes) -> list[Jwk]:
    """The keys of a document that are for signatures. Keys of unknown types are ignored, as in jose4j."""
    try:
        document = json.loads(text)
    except (ValueError, RecursionError):
        raise BadKeys("it is not JSON") from None
    rows = document.get("keys") if isinstance(document, dict) else None
    if not isinstance(rows, list):
        raise BadKeys('it has no list "keys"')
    if len(rows) > MAX_KEYS:
        raise BadKeys(f"it has more than {MAX_KEYS} keys")
    found = [_one(row) for row in rows if isinstance(row, dict) and _is_for_signatures(row)]
    if not found:
        raise BadKeys("it has no key that signatures can be checked with")
    return found


def _is_for_signatures(row: Mapping[str, Any]) -> bool:
    operations = row.get("key_ops")
    return (
        row.get("kty") in ("RSA", "EC", "OKP", "oct")
        and row.get("use") in (None, "sig")
        and (not isinstance(operations, list) or "verify" in operations)
    )


def _one(row: dict[str, Any]) -> Jwk:
    def text(name: str) -> str | None:
        value = row.get(name)
        return value if isinstance(value, str) else None

    return Jwk(text("kid"), str(row["kty"]), text("alg"), text("crv"), row)


LATEST_S: Final = (1 << 63) // 1000 - 1
"""The latest time in seconds. Later times would exceed the ms numbers that a Java client can read."""


class Expected(NamedTuple):
    """The expected claims of tokens. Without `audiences` tokens must not name an audience."""

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
        """Look for new keys, because a token names an unknown key."""


class JwtCheck:
    """Checks signed tokens."""

    def __init__(self, keys: KeySource, expected: Expected, wall_ms: Callable[[], int]) -> None:
        self._keys = keys
        self._expected = expected
        self._wall_ms = wall_ms

    def __call__(self, token: str) -> BearerToken:
        """The client of this token, and when it expires. Raises InvalidToken."""
        if token.count(".") != 2:
            raise InvalidToken("it does not have the three parts of a signed token")
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
    """The claims of a payload. Each claim may occur only once. Raises InvalidToken."""
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
    scopes = [value] if isinstance(value, str) else value if isinstance(value, list) else []
    if not all(isinstance(one, str) and one.strip() for one in scopes):
        raise InvalidToken(f"a scope ({name}) is empty or no text")
    if len({one.strip() for one in scopes}) != len(scopes):
        raise InvalidToken(f"a scope ({name}) is named twice")
