"""Reads a client's security from Kafka's properties (`--command-config FILE`), and logs in by PLAIN or SCRAM.

All settings are checked before a connection is made. A wrong setting raises ConfigError: one sentence without secrets.
"""

from __future__ import annotations

import base64
import hmac
import secrets
import ssl
import textwrap
from collections.abc import Callable, Generator, Iterator, Mapping
from pathlib import Path
from typing import Final, NamedTuple

from muster.client import oauth_login
from muster.client.oauth_login import OAUTHBEARER, Bearer
from muster.coordinator.config.checks import ConfigError
from muster.coordinator.config.sources import decode_properties, parse_properties
from muster.coordinator.net.tls import stores
from muster.coordinator.net.tls.context import client_context
from muster.coordinator.net.tls.settings import TlsError, TlsSettings
from muster.coordinator.security.sasl import jaas
from muster.coordinator.security.sasl.scram import MAX_ITERATIONS, MECHANISMS, ScramMechanism

PLAIN: Final = "PLAIN"
SPOKEN: Final = (PLAIN, *MECHANISMS, OAUTHBEARER)
_MAX_ITERATIONS: Final = 64 * MAX_ITERATIONS
"""The most iterations that a server may demand. More iterations would block the client for too long."""

Login = Generator[bytes, bytes, None]
"""A generator that yields messages for the server, and receives the server's answers. Its end means success."""
PROTOCOLS: Final = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
_MODULES: Final = {
    PLAIN: "org.apache.kafka.common.security.plain.PlainLoginModule",
    "SCRAM": "org.apache.kafka.common.security.scram.ScramLoginModule",
    OAUTHBEARER: oauth_login.MODULE,
}
_IDENTIFICATION: Final = "ssl.endpoint.identification.algorithm"
_JAAS: Final = "sasl.jaas.config"
_MECHANISM: Final = "sasl.mechanism"


class LoginFailed(Exception):
    """The server's answer to a login is wrong. The text is a sentence without secrets."""


class User(NamedTuple):
    """A user with a password. `is_token`: the name is the id of a delegation token, and the password is its HMAC."""

    mechanism: str
    name: str
    password: str
    is_token: bool = False

    def __repr__(self) -> str:
        return f"User({self.mechanism!r}, {self.name!r}, password hidden)"


def login(user: User | Bearer, draw_nonce: Callable[[], str] = secrets.token_urlsafe) -> Login:
    """Start the login of a user. Raises NoToken if a `Bearer` cannot get a token."""
    if isinstance(user, Bearer):
        return _bearer(user)
    if user.mechanism == PLAIN:
        return _plain(user)
    return _scram(MECHANISMS[user.mechanism], user, draw_nonce())


def _plain(user: User) -> Login:
    yield f"\0{user.name}\0{user.password}".encode()


def _bearer(user: Bearer) -> Login:
    refusal = yield user.message()
    if refusal:  # the broker sends its error code only after one more message
        yield b"\1"


def _scram(mechanism: ScramMechanism, user: User, nonce: str) -> Login:
    name = user.name.replace("=", "=3D").replace(",", "=2C")
    bare = f"n={name},r={nonce}" + (",tokenauth=true" if user.is_token else "")
    first = yield f"n,,{bare}".encode()
    said = _fields(first)
    try:
        salt, iterations = base64.b64decode(said["s"], validate=True), int(said["i"])
    except (KeyError, ValueError):
        raise LoginFailed(f"its first message of {mechanism.name} cannot be read") from None
    if not said.get("r", "").startswith(nonce) or not 0 < iterations <= _MAX_ITERATIONS:
        raise LoginFailed(f"its first message of {mechanism.name} is not an answer to ours")
    credential_of = mechanism.salted(user.password, salt, iterations)
    client_key = mechanism.hmac(credential_of, b"Client Key")
    credential = mechanism.credential(salt, credential_of, iterations)
    without_proof = f"c=biws,r={said['r']}"
    signed = f"{bare},{first.decode()},{without_proof}".encode()
    signature = mechanism.hmac(credential.stored_key, signed)
    proof = bytes(one ^ other for one, other in zip(client_key, signature, strict=True))
    final = yield f"{without_proof},p={base64.b64encode(proof).decode()}".encode()
    expected = base64.b64encode(mechanism.hmac(credential.server_key, signed)).decode()
    if not hmac.compare_digest(_fields(final).get("v", "").encode(), expected.encode()):
        raise LoginFailed("it does not know the password: it is not the server that the user was made on")


def _fields(message: bytes) -> dict[str, str]:
    parts = (part.partition("=") for part in message.decode("utf-8", "replace").split(","))
    return {name: value for name, _, value in parts}


class ClientSecurity(NamedTuple):
    """How a client connects. `context` is only for TLS, `user` only for SASL. `where`: the file, for error texts."""

    where: str
    protocol: str = "PLAINTEXT"
    context: ssl.SSLContext | None = None
    user: User | Bearer | None = None
    tls: TlsSettings | None = None

    @property
    def has_certificate(self) -> bool:
        """Whether the client has a certificate, which a broker may demand."""
        tls = self.tls
        return tls is not None and (tls.ssl_keystore_location is not None or tls.ssl_keystore_key is not None)

    @property
    def is_anonymous(self) -> bool:
        """Whether the client shows nobody's name."""
        return self.user is None and not self.has_certificate


def read(file: Path) -> ClientSecurity:
    """Read a client's security from a file. Raises ConfigError."""
    where = f"--command-config {file}"
    try:
        properties = parse_properties(decode_properties(file.read_bytes()), where)
    except OSError as error:
        raise ConfigError(f"{where} cannot be read: {error.strerror or error}") from error
    try:
        return of(properties, where)
    except (TlsError, ConfigError) as error:
        raise ConfigError(f"{where}: {error}") from error


def of(properties: Mapping[str, str], where: str) -> ClientSecurity:
    """Make a client's security from properties. Raises ConfigError and TlsError."""
    protocol = properties.get("security.protocol", "PLAINTEXT").strip().upper()
    if protocol not in PROTOCOLS:
        raise ConfigError(f"security.protocol={protocol} is not known; expected one of {', '.join(PROTOCOLS)}")
    tls = context = None
    if protocol.endswith("SSL"):
        tls = TlsSettings.of(properties)
        context = client_context(tls)
        # a chain may end at any certificate of the trust store, as in Java's clients
        context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
        context.check_hostname = _checks_names(properties)
    user = _user(properties) if protocol.startswith("SASL") else None
    return ClientSecurity(where, protocol, context, user, tls)


def _checks_names(properties: Mapping[str, str]) -> bool:
    given = properties.get(_IDENTIFICATION, "https").strip()
    if given.lower() not in ("", "https"):
        raise ConfigError(f"{_IDENTIFICATION}={given} is not known; expected https, or nothing for no comparison")
    return bool(given)


def _user(properties: Mapping[str, str]) -> User | Bearer:
    mechanism = properties.get(_MECHANISM, "GSSAPI").strip()
    if mechanism not in SPOKEN:
        default = "" if _MECHANISM in properties else ", Kafka's default,"
        raise ConfigError(f"{_MECHANISM}={mechanism}{default} is not supported; expected one of {', '.join(SPOKEN)}")
    text = properties.get(_JAAS)
    if text is None:
        options = "" if mechanism == OAUTHBEARER else ' username="NAME" password="PASSWORD"'
        raise ConfigError(f"{_JAAS} is missing: {_modules(mechanism)} required{options}; was expected")
    try:
        module = jaas.parse(text)
    except jaas.BadJaas as error:
        raise ConfigError(f"{_JAAS} cannot be read: {error}") from None
    if module.name != _modules(mechanism):
        raise ConfigError(
            f"{_JAAS} is for {module.name}; with {_MECHANISM}={mechanism} {_modules(mechanism)} is needed"
        )
    if mechanism == OAUTHBEARER:
        return oauth_login.read(properties, module.options)
    missing = [name for name in ("username", "password") if name not in module.options]
    if missing:
        raise ConfigError(f"{_JAAS} has no {missing[0]}")
    is_token = module.options.get("tokenauth", "").lower() == "true"
    return User(mechanism, module.options["username"], module.options["password"], is_token)


def _modules(mechanism: str) -> str:
    return _MODULES.get(mechanism) or _MODULES["SCRAM"]


def librdkafka(security: ClientSecurity) -> Iterator[tuple[str, str]]:
    """The settings of librdkafka for this security (`muster analyze`). Keys must be in PEM. Raises ConfigError."""
    yield "security.protocol", security.protocol
    if isinstance(security.user, Bearer):
        try:
            yield from oauth_login.librdkafka(security.user)
        except ConfigError as error:
            raise ConfigError(f"{security.where}: {error}") from error
    elif security.user is not None:
        if security.user.is_token:
            raise ConfigError(f"{security.where}: delegation tokens (tokenauth) are not for `muster analyze`")
        yield "sasl.mechanism", security.user.mechanism
        yield "sasl.username", security.user.name
        yield "sasl.password", security.user.password
    if security.tls is None:
        return
    assert security.context is not None
    if not security.context.check_hostname:
        yield _IDENTIFICATION, "none"
    trusted = stores.trusted(security.tls)
    if trusted is not None:
        yield "ssl.ca.pem", "".join(map(_pem, trusted))
    if security.has_certificate:
        pair = stores.key_pair(security.tls)
        yield "ssl.certificate.pem", "".join(map(_pem, pair.chain))
        yield "ssl.key.pem", pair.key
        if pair.password is not None:
            yield "ssl.key.password", pair.password


def _pem(certificate: bytes) -> str:
    lines = textwrap.wrap(base64.b64encode(certificate).decode(), 64)
    return "\n".join(["-----BEGIN CERTIFICATE-----", *lines, "-----END CERTIFICATE-----", ""])
