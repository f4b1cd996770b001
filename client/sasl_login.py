"""The client's side of PLAIN, SCRAM and OAUTHBEARER: its messages, and the check of a SCRAM server's proof."""

from __future__ import annotations

import base64
import hmac
import secrets
from collections.abc import Callable, Generator
from typing import Final, NamedTuple

from muster.client.oauth_login import OAUTHBEARER, Bearer
from muster.coordinator.security.sasl.scram import MAX_ITERATIONS, MECHANISMS, ScramMechanism

PLAIN: Final = "PLAIN"
SPOKEN: Final = (PLAIN, *MECHANISMS, OAUTHBEARER)
_MOST_ITERATIONS: Final = 64 * MAX_ITERATIONS
"""The most iterations that a server may demand: more would only take time."""

Login = Generator[bytes, bytes, None]
"""Yields a message for the server, and is sent the server's answer. It returns when the server has proven all that it
must prove.
"""


class LoginFailed(Exception):
    """The server's answer is wrong. The text is a sentence without secrets."""


class User(NamedTuple):
    """A user. `is_token`: the name is the id of a delegation token, and the password its HMAC."""

    mechanism: str
    name: str
    password: str
    is_token: bool = False

    def __repr__(self) -> str:
        return f"User({self.mechanism!r}, {self.name!r}, password hidden)"


def login(user: User | Bearer, draw_nonce: Callable[[], str] = secrets.token_urlsafe) -> Login:
    """The exchange. With a bearer, it raises NoToken if no token can be had."""
    if isinstance(user, Bearer):
        return _bearer(user)
    if user.mechanism == PLAIN:
        return _plain(user)
    return _scram(MECHANISMS[user.mechanism], user, draw_nonce())


def _plain(user: User) -> Login:
    yield f"\0{user.name}\0{user.password}".encode()


def _bearer(user: Bearer) -> Login:
    refusal = yield user.message()
    if refusal:  # the answer to the next message says what is wrong
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
    if not said.get("r", "").startswith(nonce) or not 0 < iterations <= _MOST_ITERATIONS:
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
    """The fields of a SCRAM message, `r=…,s=…`."""
    parts = (part.partition("=") for part in message.decode("utf-8", "replace").split(","))
    return {name: value for name, _, value in parts}
