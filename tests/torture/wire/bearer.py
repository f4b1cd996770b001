"""Tokens of OAUTHBEARER, good and hostile: drawn from a seed, and signed so that their content is read at all."""

from __future__ import annotations

import atexit
import base64
import hashlib
import hmac
import json
import tempfile
from functools import cache
from pathlib import Path
from random import Random
from typing import Any, Final

from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from jwt.algorithms import get_default_algorithms

CLASS: Final = "org.apache.kafka.common.security.oauthbearer.OAuthBearerValidatorCallbackHandler"
USER, AUDIENCE = "alice", "kafka"
_SECRET: Final = b"a secret of thirty-two bytes...."
_LATER_S: Final = 1 << 33
_CLAIMS: Final = {"sub": USER, "aud": AUDIENCE, "iat": 0, "exp": _LATER_S}
_HEADERS: Final[tuple[dict[str, Any], ...]] = (
    {}, {"kid": None}, {"kid": "nobody"}, {"kid": 5}, {"kid": "x" * 5_000}, {"kid": "\ud800"}, {"alg": "none"},
    {"alg": "RS256", "kid": "rsa"}, {"alg": "PS512", "kid": "rsa"}, {"alg": "ES256", "kid": "p256"},
    {"alg": "ES512", "kid": "p521"}, {"alg": "HS512"}, {"alg": ["HS256"]}, {"alg": "HS256", "kid": "rsa"},
    {"crit": ["exp"]}, {"b64": False}, {"cty": "JWT"}, {"typ": {}}, {"jku": "http://127.0.0.1:1/"}, {"x": "y" * 9_000},
)  # fmt: skip
_VALUES: Final[tuple[Any, ...]] = (
    None, True, "", " ", "a", "\0", "\ud800", "ü" * 300, "x" * 20_000, -1, 0, 1, 1.5, 1 << 31, 1 << 62, 1 << 63,
    1 << 400, 1e300, float("inf"), float("nan"), [], ["a", "a"], [AUDIENCE], ["x"] * 3_000, {}, {"a": [1]},
)  # fmt: skip
_BODIES: Final = (
    b"", b"[]", b"null", b'"x"', b"{", b"\xff", b"[" * 20_000, b"1" * 20_000, b'{"exp":' + b"9" * 20_000 + b"}",
    b'{"sub":"alice","sub":"bob"}', b'{"exp":1e999,"iat":-1e999,"sub":"a","aud":"kafka"}',
)  # fmt: skip


@cache
def keys() -> str:
    """The document with the keys. Only the keys "oct" and "ed" sign here; the server must try the others."""
    algorithms = get_default_algorithms()
    draw = Random(7)
    curves = {"p256": ("ES256", ec.SECP256R1()), "p521": ("ES512", ec.SECP521R1())}
    public: dict[str, tuple[str, Any]] = {
        "ed": ("EdDSA", _ed().public_key()),
        "rsa": ("RS256", rsa.RSAPublicNumbers(65537, draw.getrandbits(2048) | 1 << 2047 | 1).public_key()),
        **{name: (alg, ec.derive_private_key(12_345, curve).public_key()) for name, (alg, curve) in curves.items()},
    }
    rows: list[dict[str, Any]] = [{"kty": "oct", "kid": "oct", "k": _text(_SECRET)}]
    for name, (algorithm, key) in public.items():
        rows.append({**json.loads(algorithms[algorithm].to_jwk(key)), "kid": name, "key_ops": ["verify"]})
    return json.dumps({"keys": rows})


@cache
def keys_file() -> Path:
    """The same document in a file, until the process ends."""
    folder = tempfile.TemporaryDirectory()
    atexit.register(folder.cleanup)
    path = Path(folder.name) / "keys.json"
    path.write_text(keys())
    return path


def properties(listener: str, file: Path) -> dict[str, str]:
    """The properties that a listener needs for tokens, beside the mechanism's name."""
    return {
        f"listener.name.{listener}.oauthbearer.sasl.server.callback.handler.class": CLASS,
        f"listener.name.{listener}.sasl.oauthbearer.jwks.endpoint.url": file.as_uri(),
        f"listener.name.{listener}.sasl.oauthbearer.expected.audience": AUDIENCE,
    }


def message(rng: Random) -> bytes:
    """The first message of an exchange."""
    before = rng.choice(("n,,",) * 6 + (f"n,a={USER},", "n,a=bob,", "y,,", ""))
    more = rng.choice(("",) * 8 + ("traceId=1\1", "a==b==\1", "x=" + "y" * 60_000 + "\1", "a=b\1" * 5_000, "1=1\1"))
    return f"{before}\1auth=Bearer {token(rng)}\1{more}\1".encode()


def token(rng: Random) -> str:
    """A random token; every third token is good."""
    header: dict[str, Any] = {"alg": "HS256", "kid": "oct"}
    if rng.random() < 0.3:
        header = {"alg": "EdDSA", "kid": "ed"}
    claims: dict[str, Any] = dict(_CLAIMS)
    kind = rng.random()
    body = None
    if kind > 0.9:
        header |= rng.choice(_HEADERS)
    elif kind > 0.8:
        body = rng.choice(_BODIES)
    elif kind > 0.35:
        for _ in range(rng.choice((1, 1, 2))):
            claims[rng.choice(("sub", "aud", "iat", "exp", "nbf", "iss", "scope"))] = rng.choice(_VALUES)
    said = [json.dumps(header).encode(), json.dumps(claims).encode() if body is None else body]
    signed = ".".join(map(_text, said))
    signature = _signature(header, signed.encode(), rng)
    return signed + "." + _text(signature) if rng.random() < 0.97 else signed + rng.choice(("", ".", "..", ".!"))


def _signature(header: dict[str, Any], signed: bytes, rng: Random) -> bytes:
    if header["alg"] == "HS256":
        return hmac.digest(_SECRET, signed, hashlib.sha256)
    if header["alg"] == "EdDSA":
        return _ed().sign(signed)
    return rng.randbytes({"RS256": 256, "PS512": 256, "ES256": 64, "ES512": 132}.get(str(header["alg"]), 64))


@cache
def _ed() -> ed25519.Ed25519PrivateKey:
    return ed25519.Ed25519PrivateKey.from_private_bytes(b"\1" * 32)


def _text(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()
