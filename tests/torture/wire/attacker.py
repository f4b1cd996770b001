"""One hostile connection in virtual time: what it has sent, as the server must read it, and its answers."""

from __future__ import annotations

import base64
import hashlib
import hmac
import struct
from collections import deque
from collections.abc import Callable, Generator
from functools import cache
from random import Random
from typing import Any, Final

from muster.protocol.api import UnknownApi, api, api_named
from muster.protocol.frames import decode_response_header, request_frame
from muster.protocol.message import Message, ProtocolError
from muster.protocol.messages.sasl_authenticate import SaslAuthenticateRequest
from muster.protocol.messages.sasl_handshake import SaslHandshakeRequest
from muster.simulation.process import Process
from muster.virtual.machine import PORT
from muster.virtual.wires import Wire
from tests.torture.wire import bearer

PRODUCE: Final = 0
SASL_HANDSHAKE: Final = 17
API_VERSIONS: Final = 18
MAX_BYTES: Final = 104_857_600
"""socket.request.max.bytes."""
USER, PASSWORD = "alice", "secret"
Learn = Callable[[Any], object]
Login = Generator[bytes, bytes, None]
"""Yields the tokens for the server, and receives the server's tokens."""


class Attacker:
    """The connection of this module. `answers` counts the answers; `wrong` describes the fault."""

    def __init__(self, process: Process, port: int, client_id: str, learn: Learn) -> None:
        self.client_id = client_id
        self.answers = 0
        self.reported: tuple[Any, ...] = ()
        """The subject of the last answer: used to find new kinds of answers."""
        self.wrong: str | None = None
        self.is_closed = False
        self.is_raw = False
        """Tokens are sent without requests around them, since SaslHandshake 0 was sent."""
        self.is_known = False
        """Whether it has authenticated."""
        self.token: bytes | None = None
        self.port = port
        self._is_unclear = False
        self._learn = learn
        self._unread = self._received = b""
        self._asked: deque[tuple[int, int, int]] = deque()
        self.wire = Wire(process, self, 0, port)

    @property
    def is_open(self) -> bool:
        """Whether it can send."""
        return self.wire.open and not self.is_closed

    def send(self, data: bytes) -> None:
        """Send these bytes, which need be no request."""
        self._note(data)
        self.wire.send(data)

    def _note(self, data: bytes) -> None:
        """Read the bytes as the server must read them."""
        self._unread += data
        while len(self._unread) >= 4:
            (size,) = struct.unpack_from(">i", self._unread)
            if not 0 <= size <= MAX_BYTES:
                self._unread = b""
                return  # the server closes the connection
            if len(self._unread) < 4 + size:
                return
            frame, self._unread = self._unread[4 : 4 + size], self._unread[4 + size :]
            if size >= 8 and not self.is_raw:
                key, version, correlation = struct.unpack_from(">hhi", frame)
                # a Produce may have no answer: nobody can say which answer belongs to a request with the same number
                self._is_unclear |= any(correlation == other and PRODUCE in (key, of) for of, _, other in self._asked)
                self._asked.append((key, version, correlation))
                self.is_raw = self.port != PORT and not self.is_known and key == SASL_HANDSHAKE and version == 0

    # ---- the wire's calls

    def received(self, wire: Wire, data: bytes) -> None:
        """Receive bytes of the server."""
        self._received += data
        while len(self._received) >= 4:
            end = 4 + int.from_bytes(self._received[:4], "big")
            if len(self._received) < end:
                return
            frame, self._received = self._received[4:end], self._received[end:]
            self.answers += 1
            self._read(frame)

    def hung_up(self, wire: Wire) -> None:
        """Note that the server has closed the connection."""
        self.is_closed = True

    def _read(self, frame: bytes) -> None:
        if self._is_unclear:
            return
        if self.is_raw and not self._asked:
            self.token = frame
            return
        (correlation,) = struct.unpack_from(">i", frame)
        while self._asked:
            key, version, asked = self._asked.popleft()
            if asked == correlation:
                self._decode(key, version, frame)
                return
            if key != PRODUCE:
                self.wrong = f"the answer to {correlation} came, {asked} (API {key}, version {version}) waits"
                return
        self.wrong = f"an answer came to {correlation}, which nobody waits for"

    def _decode(self, key: int, version: int, frame: bytes) -> None:
        if key == API_VERSIONS and int.from_bytes(frame[4:6], "big") == 35:
            version = 0
        try:
            kind = api(key)
            _, body = decode_response_header(kind, version, frame, 0, len(frame))
            response = kind.decode_response(version, frame, body, len(frame))
        except (ProtocolError, UnknownApi) as error:
            self.wrong = f"the answer to API {key}, version {version} cannot be read: {error}: {frame[:200].hex()}"
            return
        self.reported = (key, version, getattr(response, "error_code", None), len(frame) // 32)
        self.token = getattr(response, "auth_bytes", None)
        self._learn(response)


# ---- authentication


def framed(message: Message, version: int, correlation: int = 1) -> bytes:
    """A request."""
    kind = api_named(type(message).__name__.removesuffix("Request"))
    return request_frame(kind, version, correlation, message, "sasl")


def handshake(mechanism: str, version: int = 1) -> bytes:
    """Choose a mechanism."""
    return framed(SaslHandshakeRequest(mechanism), version)


def as_sent(token: bytes, raw: bool) -> bytes:
    """A token in the form in which it is sent."""
    return struct.pack(">i", len(token)) + token if raw else framed(SaslAuthenticateRequest(token), 2)


def plain() -> Login:
    """Log in with PLAIN."""
    yield f"\0{USER}\0{PASSWORD}".encode()


@cache
def _salted(algorithm: str, salt: bytes, iterations: int) -> bytes:
    return hashlib.pbkdf2_hmac(algorithm, PASSWORD.encode(), salt, iterations)


def scram(algorithm: str, nonce: str) -> Login:
    """Log in with SCRAM, as in RFC 5802."""
    first = f"n={USER},r={nonce}"
    server_first = yield f"n,,{first}".encode()
    fields = dict(one.split("=", 1) for one in server_first.decode().split(","))
    salted = _salted(algorithm, base64.b64decode(fields["s"]), int(fields["i"]))
    client_key = hmac.digest(salted, b"Client Key", algorithm)
    without_proof = f"c=biws,r={fields['r']}"
    signed = f"{first},{server_first.decode()},{without_proof}".encode()
    signature = hmac.digest(hashlib.new(algorithm, client_key).digest(), signed, algorithm)
    proof = bytes(one ^ other for one, other in zip(client_key, signature, strict=True))
    yield f"{without_proof},p={base64.b64encode(proof).decode()}".encode()


def oauthbearer(rng: Random) -> Login:
    """Log in with OAUTHBEARER, with a random token."""
    refusal = yield bearer.message(rng)
    if refusal:
        yield b"\1"


def login(mechanism: str, rng: Random) -> Login:
    """Log in with one of the mechanisms."""
    if mechanism == "OAUTHBEARER":
        return oauthbearer(rng)
    nonce = f"nonce{rng.randrange(1 << 30)}"
    return plain() if mechanism == "PLAIN" else scram(mechanism[6:].replace("-", "").lower(), nonce)
