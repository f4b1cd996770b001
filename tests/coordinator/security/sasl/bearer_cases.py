"""Tokens of OAUTHBEARER, good and bad, with Kafka 4.3's answers (`tests/conformance/test_oauthbearer.py` asks a real
Kafka). The unit tests and the conformance test share them.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from jwt.algorithms import get_default_algorithms

AUDIENCE, ISSUER = "kafka", "https://idp.example"
INVALID: Final = '{"status":"invalid_token"}'
REFUSED: Final = (
    "Authentication failed during authentication due to invalid credentials with SASL mechanism OAUTHBEARER"
)


class Keys:
    """An identity provider's keys, by their ids."""

    def __init__(self) -> None:
        self.private: dict[str, Any] = {
            "rsa": rsa.generate_private_key(65537, 2048),
            "any": rsa.generate_private_key(65537, 2048),
            "short": rsa.generate_private_key(65537, 1024),
            "enc": rsa.generate_private_key(65537, 2048),
            "stranger": rsa.generate_private_key(65537, 2048),
            "p256": ec.generate_private_key(ec.SECP256R1()),
            "p384": ec.generate_private_key(ec.SECP384R1()),
            "p521": ec.generate_private_key(ec.SECP521R1()),
            "ed": ed25519.Ed25519PrivateKey.generate(),
            "oct": b"a secret of thirty-two bytes....",
        }
        self.private["twin"] = self.private["any"]
        self.more: dict[str, dict[str, str]] = {"rsa": {"alg": "RS256", "use": "sig"}, "enc": {"use": "enc"}}

    def jwks(self, *kids: str) -> str:
        """The document with the public keys."""
        kids = kids or tuple(kid for kid in self.private if kid not in ("stranger", "twin"))
        return json.dumps({"keys": [self.jwk(kid) for kid in kids]})

    def jwk(self, kid: str) -> dict[str, Any]:
        """One of the keys, as JSON."""
        key = self.private[kid]
        if isinstance(key, bytes):
            found: dict[str, Any] = {"kty": "oct", "k": encoded(key)}
        else:
            name = {"ed": "EdDSA", "p256": "ES256", "p384": "ES384", "p521": "ES512"}.get(kid, "RS256")
            found = json.loads(get_default_algorithms()[name].to_jwk(key.public_key()))
            found.pop("key_ops", None)
        return {**found, "kid": kid, **self.more.get(kid, {})}

    def pem(self, kid: str) -> bytes:
        """The public key, as text."""
        return bytes(self.private[kid].public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo))

    def token(self, case: Case, now_s: float) -> str:
        """The token of a case, for a client that connects at this time."""
        claims = case.payload(now_s)
        header = {"alg": case.alg, "kid": case.kid, **case.header}
        header = {name: value for name, value in header.items() if value is not None}
        body = claims if isinstance(claims, bytes) else json.dumps(claims).encode()
        parts = [encoded(json.dumps(header).encode()), encoded(body)]
        signed = ".".join(parts).encode()
        parts.append(encoded(self._signature(case, signed)))
        return case.written(parts)

    def _signature(self, case: Case, signed: bytes) -> bytes:
        if case.signer == "nobody":
            return b""
        if case.signer.startswith("pem of "):
            # servers make this mistake: they take the public key for a shared secret
            return hmac.digest(self.pem(case.signer.removeprefix("pem of ")), signed, hashlib.sha256)
        algorithm = get_default_algorithms()[case.signed_as or case.alg or "RS256"]
        return algorithm.sign(signed, self.private[case.signer or case.kid or "rsa"])


def encoded(data: bytes) -> str:
    """In base64url, without padding."""
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


class Case(NamedTuple):
    """A token. `claims` replace the usual claims. `signer` is the owner of the key that signs. `signed_as` is the
    algorithm, where the header names another. `told` is Kafka's error; None: Kafka accepts the token, for `user`.
    """

    name: str
    claims: Mapping[str, Any] | bytes = {}
    kid: str | None = "rsa"
    alg: str | None = "RS256"
    header: Mapping[str, Any] = {}
    signer: str = ""
    signed_as: str = ""
    form: str = "{0}.{1}.{2}"
    user: str = "alice"
    reported: str | None = None

    def payload(self, now_s: float) -> dict[str, Any] | bytes:
        """The claims at this time."""
        if isinstance(self.claims, bytes):
            return self.claims
        usual: dict[str, Any] = {
            "sub": "alice", "iss": ISSUER, "aud": AUDIENCE, "iat": After(0), "exp": After(300), "scope": "all",
        }  # fmt: skip
        found = {**usual, **self.claims}
        return {
            name: int(now_s) + value.seconds if isinstance(value, After) else value
            for name, value in found.items()
            if value is not MISSING
        }

    def written(self, parts: list[str]) -> str:
        """The text of the token."""
        return self.form.format(*parts)


class After(NamedTuple):
    """A time, in seconds from now."""

    seconds: int


MISSING: Final = object()
"""Stands for a missing claim."""


def bad(name: str, claims: Mapping[str, Any] | bytes = {}, **other: Any) -> Case:
    """A token that is refused."""
    return Case(name, claims, reported=INVALID, **other)


TOKENS: Final = (
    Case("RS256 with its own key"),
    *(Case(f"{alg} with a key for any", kid="any", alg=alg)
      for alg in ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512")),
    Case("ES256", kid="p256", alg="ES256"),
    Case("ES384", kid="p384", alg="ES384"),
    Case("ES512", kid="p521", alg="ES512"),
    bad("ES512 with a P-256 key", kid="p256", alg="ES512", signer="p521"),
    bad("ES256 with a P-521 key", kid="p521", alg="ES256", signer="p256"),
    Case("EdDSA", kid="ed", alg="EdDSA"),
    Case("HS256 with a shared secret", kid="oct", alg="HS256"),
    Case("no key id", kid=None),
    bad("a key id that nobody has", kid="nobody", signer="rsa"),
    bad("a stranger's key", signer="stranger"),
    bad("another key than the one named", signer="any"),
    Case("an algorithm that the key is not for", alg="RS512"),
    bad("a shared secret that is the public key", alg="HS256", signer="pem of rsa"),
    bad("a shared secret that is the public key of a key for any", kid="any", alg="HS256", signer="pem of any"),
    bad("the algorithm none", alg="none", signer="nobody"),
    bad("the algorithm none with a signature", alg="none", signer="rsa", signed_as="RS256"),
    bad("the algorithm None", alg="None", signer="nobody"),
    bad("no algorithm", alg=None),
    bad("ES256 with an RSA key", kid="any", alg="ES256", signer="p256"),
    bad("RS256 with an EC key", kid="p256", alg="RS256", signer="any"),
    bad("ES256 with a P-384 key", kid="p384", alg="ES256", signer="p256"),
    bad("a key that is for encryption", kid="enc"),
    bad("a key of 1,024 bits", kid="short"),
    bad("no signature", form="{0}.{1}."),
    bad("two parts", form="{0}.{1}"),
    bad("four parts", form="{0}.{1}.{2}.{2}"),
    bad("five parts", form="{0}.{1}.{2}.{2}.{2}"),
    bad("an empty payload", form="{0}..{2}"),
    bad("an extension that is critical", header={"crit": ["exp"], "exp": 1}),
    bad("a payload that is not encoded", header={"crit": ["b64"], "b64": False}),
    Case("another type", header={"typ": "at+jwt"}),
    Case("no type", header={"typ": None}),
    bad("no expiry", {"exp": MISSING}),
    bad("an expiry that is null", {"exp": None}),
    bad("an expiry that is text", {"exp": "4102444800"}),
    bad("expired", {"iat": After(-99), "exp": After(-31)}),
    Case("expired within the skew of clocks", {"iat": After(-99), "exp": After(-15)}),
    bad("expired long ago", {"exp": 1}),
    bad("a negative expiry", {"exp": -5}),
    Case("an expiry far away", {"exp": 4102444800}),
    Case("an expiry with a fraction", {"exp": 4102444800.5}),
    bad("not yet", {"nbf": After(60)}),
    Case("nearly, within the skew", {"nbf": After(15)}),
    Case("already", {"nbf": After(-60)}),
    bad("no time of issue", {"iat": MISSING}),
    bad("a time of issue that is text", {"iat": "now"}),
    Case("issued tomorrow", {"iat": After(86400), "exp": After(90000)}),
    bad("issued after its expiry", {"iat": After(400)}),
    bad("not before its expiry", {"nbf": After(20), "exp": After(10)}),
    bad("a time of issue that is true", {"iat": True}),
    bad("a time that is a list", {"nbf": [1]}),
    bad("a token within a token", header={"cty": "JWT"}),
    bad("a negative time of issue", {"iat": -5}),
    bad("another audience", {"aud": "others"}),
    Case("one of the audiences", {"aud": ["others", AUDIENCE]}),
    bad("none of the audiences", {"aud": ["others", "more"]}),
    bad("no audience", {"aud": MISSING}),
    bad("an audience that is a number", {"aud": 5}),
    bad("another issuer", {"iss": "https://other.example"}),
    bad("no issuer", {"iss": MISSING}),
    bad("an issuer that is a list", {"iss": [ISSUER]}),
    bad("no subject", {"sub": MISSING}),
    bad("an empty subject", {"sub": ""}),
    bad("a blank subject", {"sub": "  "}),
    bad("a subject that is a number", {"sub": 5}),
    Case("a subject with blanks around", {"sub": "  bob "}, user="bob"),
    Case("a subject of other letters", {"sub": "élan 中"}, user="élan 中"),
    Case("no scope", {"scope": MISSING}),
    Case("a scope that is null", {"scope": None}),
    bad("a scope that is blank", {"scope": " "}),
    bad("an empty scope", {"scope": ""}),
    Case("scopes", {"scope": ["a", "b"]}),
    Case("no scopes", {"scope": []}),
    bad("a scope twice", {"scope": ["a", " a"]}),
    bad("an empty scope among others", {"scope": ["a", ""]}),
    Case("a scope that is a number", {"scope": 5}),
    bad("no JSON", b"exp=1"),
    bad("a list", b"[]"),
    bad("claims twice", b'{"sub":"alice","sub":"bob"}'),
    bad("deep JSON", b"[" * 5000 + b"]" * 5000),
)  # fmt: skip


ONLY_HERE: Final = (bad("a number among scopes", {"scope": ["a", 5]}), bad("true as a scope", {"scope": [True]}),
                    bad("a subject that is no text", {"sub": "\ud800"}))  # fmt: skip
"""Kafka closes the connection without an answer for the first two: its code raises an error. The last one is half a
character, which no answer and no log line can show.
"""
ANYBODY: Final = (
    Case("no audience, where none is expected", {"aud": MISSING, "iss": "https://other.example"}),
    Case("no issuer, where none is expected", {"aud": MISSING, "iss": MISSING}),
    Case("an audience that is null", {"aud": None}),
    bad("an audience, where none is expected"),
    bad("an empty list of audiences", {"aud": []}),
)
"""Cases in which neither an audience nor an issuer is expected."""


class Message(NamedTuple):
    """A client's first message. `{token}` in its text stands for a good token of alice's. `told`: as in `Case`."""

    name: str
    text: str
    reported: str | None = None


ANOTHER_SCHEME: Final = Message("another scheme", "n,,\1auth=Basic {token}\1\1", REFUSED)
"""Kafka closes the connection."""
MESSAGES: Final = (
    Message("as clients send it", "n,,\1auth=Bearer {token}\1\1"),
    Message("an authorization id", "n,a=alice,\1auth=Bearer {token}\1\1"),
    Message("another authorization id", "n,a=bob,\1auth=Bearer {token}\1\1",
            "Authentication failed: Client requested an authorization id (bob) that is different from the token's "
            "principal name (alice)"),
    Message("an authorization id that is quoted", "n,a=alic=2Ce,\1auth=Bearer {token}\1\1",
            "Authentication failed: Client requested an authorization id (alic=2Ce) that is different from the "
            "token's principal name (alice)"),
    Message("an empty authorization id", "n,a=,\1auth=Bearer {token}\1\1", REFUSED),
    Message("channel binding", "y,,\1auth=Bearer {token}\1\1", REFUSED),
    Message("small letters", "n,,\1auth=bEARER {token}\1\1"),
    Message("blanks", "n,,\1auth=Bearer    {token}\1\1"),
    Message("a blank behind", "n,,\1auth=Bearer {token} \1\1", REFUSED),
    Message("no scheme", "n,,\1auth={token}\1\1", REFUSED),
    Message("no token", "n,,\1auth=Bearer \1\1", REFUSED),
    Message("no auth", "n,,\1host=x\1\1", REFUSED),
    Message("nothing at all", "n,,\1\1", REFUSED),
    Message("one separator less", "n,,\1auth=Bearer {token}\1", REFUSED),
    Message("one separator more", "n,,\1auth=Bearer {token}\1\1\1", REFUSED),
    Message("extensions", "n,,\1auth=Bearer {token}\1traceId=1 2\tx\1host=h\1\1"),
    Message("an extension first", "n,,\1traceId=1\1auth=Bearer {token}\1\1"),
    Message("an extension with a number in its name", "n,,\1auth=Bearer {token}\1trace1=1\1\1", REFUSED),
    Message("an extension without a value", "n,,\1auth=Bearer {token}\1traceId=\1\1", REFUSED),
    Message("an extension twice", "n,,\1auth=Bearer {token}\1a=1\1a=2\1\1"),
    Message("auth twice", "n,,\1auth=Bearer x\1auth=Bearer {token}\1\1"),
    Message("auth twice, the bad one last", "n,,\1auth=Bearer {token}\1auth=Bearer x\1\1", INVALID),
    Message("a value with signs of equality", "n,,\1auth=Bearer {token}\1a==b==\1\1"),
    Message("no text", "\xff\xfe", REFUSED),
    Message("empty", "", REFUSED),
    Message("the end of an exchange that has not begun", "\1", REFUSED),
)  # fmt: skip


def plainly(reported: str | None, name: str, claims: Mapping[str, Any] | bytes = {}, **other: Any) -> Case:
    """A token without a signature."""
    return Case(name, claims, reported=reported, **{"alg": "none", "signer": "nobody", "kid": None, **other})


UNSECURED: Final = (
    plainly(None, "unsecured"),
    plainly(None, "letters of base64url", {"sub": "???>>>a???>>>ab???>>>"}, user="???>>>a???>>>ab???>>>"),
    bad("a signed one"),
    plainly(INVALID, "a signature", signer="rsa", signed_as="RS256"),
    plainly(INVALID, "two dots", form="{0}.."),
    plainly(INVALID, "one dot", form="{0}.{1}"),
    plainly(INVALID, "three dots", form="{0}.{1}.."),
    plainly(None, "no time of issue", {"iat": MISSING}),
    plainly(INVALID, "issued in the future", {"iat": After(60)}),
    plainly(INVALID, "unsecured, expired", {"exp": After(-15)}),
    plainly(INVALID, "unsecured, no expiry", {"exp": MISSING}),
    plainly(INVALID, "unsecured, an expiry that is text", {"exp": "1"}),
    plainly(INVALID, "an expiry before the issue", {"iat": After(-5), "exp": After(-10)}),
    plainly(INVALID, "unsecured, no subject", {"sub": MISSING}),
    plainly(INVALID, "unsecured, blank subject", {"sub": " "}),
    plainly(INVALID, "unsecured, a number as subject", {"sub": 5}),
    plainly(None, "unsecured, true as subject", {"sub": True}, user="true"),
    plainly(None, "unsecured, blanks around", {"sub": " bob "}, user=" bob "),
    plainly(None, "unsecured, other audience", {"aud": "x", "iss": "y"}),
    plainly(None, "unsecured, no scope", {"scope": MISSING}),
    plainly(None, "unsecured, scopes", {"scope": ["a", "a", " "]}),
    plainly(INVALID, "unsecured, a number as scope", {"scope": 5}),
    plainly(INVALID, "unsecured, not JSON", b"x"),
)
SCOPE_NEEDED: Final = '{"status":"insufficient_scope", "scope":"[all, more]"}'
UNSECURED_WITH_OPTIONS: Final = (
    plainly(None, "all that is needed", {"user": "bob", "roles": ["more", "all"]}, user="bob"),
    plainly(SCOPE_NEEDED, "a scope less", {"user": "bob", "roles": "all"}),
    plainly(SCOPE_NEEDED, "no scope", {"user": "bob"}),
    plainly(INVALID, "no user", {"roles": ["all", "more"]}),
    plainly(None, "expired within the skew",
            {"user": "bob", "roles": ["all", "more"], "exp": After(-1), "iat": MISSING}, user="bob"),
)  # fmt: skip
"""Cases with the principal claim "user", the scope claim "roles", the required scopes "all" and "more", and 20 s of
skew.
"""
