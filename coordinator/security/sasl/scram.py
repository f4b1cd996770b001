"""SCRAM-SHA-256 and SCRAM-SHA-512 (RFC 5802, RFC 7677), as in Kafka's ScramSaslServer.

Channel binding and SASLprep are not supported. The only extension with an effect is `tokenauth`: the user is the id of
a delegation token. For an unknown user the exchange continues with decoy credentials, and fails at the proof. Kafka
fails at once, which reveals the known users.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import re
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Final, NamedTuple

from muster.coordinator.security.sasl.exchange import OTHER_ID, AuthenticationFailed

MIN_ITERATIONS: Final = 4_096
MAX_ITERATIONS: Final = 16_384
MAX_MESSAGE_BYTES: Final = 64 << 10
"""The largest message of a client, in bytes. A client may send 512 KB, which takes some 50 ms to parse."""


class ScramMechanism(NamedTuple):
    """A mechanism. `type`: its number in requests and in the metadata log. `algorithm`: hashlib's name."""

    name: str
    type: int
    algorithm: str

    def hmac(self, key: bytes, data: bytes) -> bytes:
        """Return the HMAC of the data."""
        return hmac.digest(key, data, self.algorithm)

    def hash(self, data: bytes) -> bytes:
        """The hash function H of the RFC."""
        return hashlib.new(self.algorithm, data).digest()

    def credential(self, salt: bytes, salted_password: bytes, iterations: int) -> ScramCredential:
        """The stored credential of a password."""
        stored_key = self.hash(self.hmac(salted_password, b"Client Key"))
        return ScramCredential(salt, stored_key, self.hmac(salted_password, b"Server Key"), iterations)

    def salted(self, password: str, salt: bytes, iterations: int) -> bytes:
        """The function Hi of the RFC. 4,096 iterations take some 3 ms."""
        return hashlib.pbkdf2_hmac(self.algorithm, password.encode(), salt, iterations)


class ScramCredential(NamedTuple):
    """The stored credential of a user, which can verify a password. Nobody can authenticate with this credential."""

    salt: bytes
    stored_key: bytes
    server_key: bytes
    iterations: int

    def __repr__(self) -> str:
        return "ScramCredential(hidden)"


class TokenCredential(NamedTuple):
    """The credential of a delegation token. `owner`: the principal of the owner. `expires_ms`: in wall ms."""

    credential: ScramCredential
    owner: str
    expires_ms: int


MECHANISMS: Final[Mapping[str, ScramMechanism]] = MappingProxyType(
    {
        one.name: one
        for one in (ScramMechanism("SCRAM-SHA-256", 1, "sha256"), ScramMechanism("SCRAM-SHA-512", 2, "sha512"))
    }
)
BY_TYPE: Final[Mapping[int, ScramMechanism]] = MappingProxyType({one.type: one for one in MECHANISMS.values()})

_NAME: Final = r"(?:[\x01-\x2b\x2d-\x3c\x3e-\x7f]|=2C|=3D)+"
_VALUE: Final = r"[\x01-\x2b\x2d-\x7f]+"
_PRINTABLE: Final = r"[\x21-\x2b\x2d-\x7e]+"
_BASE64: Final = r"(?:[a-zA-Z0-9/+]{4})*(?:[a-zA-Z0-9/+]{3}=|[a-zA-Z0-9/+]{2}==)?"
_EXTENSIONS: Final = rf"(?:,[A-Za-z]+={_VALUE})*"
_FIRST: Final = re.compile(
    rf"n,(?:a=(?P<id>{_NAME}))?,(?P<bare>(?:m={_VALUE},)?n=(?P<name>{_NAME}),r=(?P<nonce>{_PRINTABLE})"
    rf"(?P<extensions>{_EXTENSIONS}))",
    re.ASCII,
)
_FINAL: Final = re.compile(
    rf"(?P<without_proof>c=(?P<channel>{_BASE64}),r=(?P<nonce>{_PRINTABLE}){_EXTENSIONS}),p=(?P<proof>{_BASE64})",
    re.ASCII,
)
_DIGITS: Final = "0123456789abcdefghijklmnopqrstuvwxyz"


class Credentials(NamedTuple):
    """Finds the credentials of a mechanism. `secret`: for decoy credentials. `find_token` finds a token by id, salt and
    iterations. `draw_iterations` gives a decoy its iterations, by the mechanism's type and the user's number.
    """

    mechanism: ScramMechanism
    find: Callable[[str], ScramCredential | None]
    draw_nonce: Callable[[], str]
    secret: bytes
    find_token: Callable[[ScramMechanism, str, bytes, int], TokenCredential | None] | None = None
    draw_iterations: Callable[[int, int], int] | None = None

    def token(self, token_id: str) -> TokenCredential | None:
        """The credential of a delegation token. The salt is the same as for an unknown id."""
        if self.find_token is None:
            return None
        return self.find_token(self.mechanism, token_id, self.salt(token_id), MIN_ITERATIONS)

    def salt(self, user: str) -> bytes:
        """The salt of an unknown user. The salt never changes, and has the form of kafka-configs."""
        drawn = self.mechanism.hmac(self.secret, user.encode())
        return base36(int.from_bytes(drawn[:17], "big") >> 6).encode()

    def decoy(self, user: str, *, is_token: bool = False) -> ScramCredential:
        """The decoy credential of an unknown user, or of an unknown delegation token."""
        iterations = MIN_ITERATIONS
        if self.draw_iterations is not None and not is_token:
            drawn = self.mechanism.hmac(self.secret, b"iterations of " + user.encode())
            iterations = self.draw_iterations(self.mechanism.type, int.from_bytes(drawn[:4], "big"))
        # No client key has this stored key. The comparison takes as long as for a known user.
        stored_key = self.mechanism.hmac(self.secret, b"stored key of " + user.encode())
        return ScramCredential(self.salt(user), stored_key, stored_key, iterations)


def base36(number: int) -> str:
    """The number in base 36, as Java's BigInteger.toString(36) writes it."""
    digits = ""
    while number:
        number, last = divmod(number, 36)
        digits = _DIGITS[last] + digits
    return digits or "0"


class ScramExchange:
    """The exchange of one client by SCRAM."""

    __slots__ = (
        "_bare", "_credential", "_credentials", "_nonce", "_server_first", "_step", "by_token", "expires_ms",
        "is_complete", "user",
    )  # fmt: skip

    def __init__(self, credentials: Credentials) -> None:
        self._credentials = credentials
        self._step: Callable[[str], str] = self._first
        self._credential: ScramCredential
        self._bare = self._server_first = self._nonce = ""
        self.is_complete = self.by_token = False
        self.user = ""
        self.expires_ms: int | None = None

    def evaluate(self, token: bytes) -> bytes:
        """See `Exchange`. The tokens are the client's first and final messages."""
        if len(token) > MAX_MESSAGE_BYTES:
            raise AuthenticationFailed
        return self._step(token.decode("utf-8", "replace")).encode()

    def _first(self, message: str) -> str:
        found = _FIRST.fullmatch(message)
        if found is None:
            raise AuthenticationFailed
        name = user = _user(found["name"])
        if _asks_by_token(found["extensions"]):
            self.by_token = True
            token = self._credentials.token(name)
            credential = None
            if token is not None:
                credential, user, self.expires_ms = token
        else:
            credential = self._credentials.find(name)
        if found["id"] is not None and found["id"] != name:
            raise AuthenticationFailed(OTHER_ID)
        self._credential = credential or self._credentials.decoy(name, is_token=self.by_token)
        self._nonce = found["nonce"] + self._credentials.draw_nonce()
        salt = base64.b64encode(self._credential.salt).decode()
        self._server_first = f"r={self._nonce},s={salt},i={self._credential.iterations}"
        self._bare, self.user, self._step = found["bare"], user, self._final
        return self._server_first

    def _final(self, message: str) -> str:
        self._step = _over
        found = _FINAL.fullmatch(message)
        if found is None or found["nonce"] != self._nonce:
            raise AuthenticationFailed
        mechanism, credential = self._credentials.mechanism, self._credential
        signed = f"{self._bare},{self._server_first},{found['without_proof']}".encode()
        signature = mechanism.hmac(credential.stored_key, signed)
        proof = base64.b64decode(found["proof"])
        if len(proof) != len(signature):
            raise AuthenticationFailed
        client_key = bytes(one ^ other for one, other in zip(proof, signature, strict=True))
        if not hmac.compare_digest(mechanism.hash(client_key), credential.stored_key):
            raise AuthenticationFailed
        self.is_complete = True
        return f"v={base64.b64encode(mechanism.hmac(credential.server_key, signed)).decode()}"


def _over(_: str) -> str:
    raise AuthenticationFailed


def _asks_by_token(extensions: str) -> bool:
    """Whether `tokenauth` is true. If an extension occurs twice, the last value counts."""
    pairs = dict(pair.split("=", 1) for pair in extensions.split(",") if pair)
    return pairs.get("tokenauth", "").lower() == "true"


def _user(name: str) -> str:
    return name.replace("=2C", ",").replace("=3D", "=")
