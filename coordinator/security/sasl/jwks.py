"""The keys of an identity provider (JSON Web Key Set, RFC 7517), and the choice of a signature's key.

The type of a key comes from the key alone, never from the token. So a public key is never used as a shared secret. A
key is chosen as in jose4j, which Kafka uses. The id counts if the token names one, and then type and use. If several
keys remain, algorithm and curve count, and then the first key is chosen.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final, NamedTuple

from jwt import PyJWK, PyJWS
from jwt.exceptions import PyJWTError

from muster.coordinator.security.sasl.oauthbearer import InvalidToken

MOST_KEYS: Final = 1_000
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
# it refuses RSA keys below 2,048 bits, and secrets that are shorter than their hash
_JWS: Final = PyJWS(options={"enforce_minimum_key_length": True})


class BadKeys(ValueError):
    """The document has no valid keys. The text says why, and contains nothing of the document."""


class UnknownKey(InvalidToken):
    """No key has the id that a token names. `kid`: this id."""

    def __init__(self, why: str, kid: str) -> None:
        super().__init__(why)
        self.kid = kid


class Jwk(NamedTuple):
    """One key. `data`: the key as in the document."""

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
        """One key for one algorithm. It is cached, because making it takes longer than using it."""
        made = self._made.get((at, algorithm))
        if made is None:
            made = self._made[at, algorithm] = PyJWK(self.keys[at].data, algorithm)
        return made


def _read(text: str | bytes) -> list[Jwk]:
    """The keys that are for signatures. Keys of unknown types are ignored, as in jose4j."""
    try:
        document = json.loads(text)
    except (ValueError, RecursionError):
        raise BadKeys("it is not JSON") from None
    rows = document.get("keys") if isinstance(document, dict) else None
    if not isinstance(rows, list):
        raise BadKeys('it has no list "keys"')
    if len(rows) > MOST_KEYS:
        raise BadKeys(f"it has more than {MOST_KEYS} keys")
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
