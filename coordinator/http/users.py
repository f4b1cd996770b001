"""The users of a server's HTTP door: those with SCRAM credentials, by HTTP's Basic authentication.

A user may look when it may describe the cluster. What it may change is decided by the broker, as for any client.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import hashlib
import hmac
import os
from collections import OrderedDict
from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple

from muster.coordinator.http.failure import Failure
from muster.coordinator.security.authorizer import (
    CLUSTER_NAME,
    USER,
    KafkaPrincipal,
    Operation,
    ResourceType,
)
from muster.coordinator.security.sasl.scram import MECHANISMS, MIN_ITERATIONS, ScramMechanism
from muster.coordinator.server.server import Server
from muster.coordinator.system.clock import pause_s

MAX_KNOWN: Final = 100
"""How many passwords are known as right without another computation: 4,096 iterations take 3 ms."""
MAX_AT_ONCE: Final = 2
"""The most passwords that are checked at once, in threads."""
MAX_WAITING: Final = 100
"""The most passwords that wait for a check."""
FAILED_S: Final = 0.1
"""How long the answer to a wrong password waits, as that of Kafka (connection.failed.authentication.delay.ms)."""
_DECOY: Final = bytes(16)


class Credentials(NamedTuple):
    """The name and the password of a request."""

    name: str
    password: str


class Looking(NamedTuple):
    """A `Requester` of the authorizer."""

    principal: KafkaPrincipal
    host: str
    listener: str = "HTTP"


def credentials_of(headers: Mapping[str, str]) -> Credentials | None:
    """The credentials in a request's headers; None: it has none. Raises Failure."""
    scheme, _, text = headers.get("authorization", "").partition(" ")
    if scheme.lower() != "basic":
        return None
    try:
        name, separator, password = base64.b64decode(text, validate=True).decode().partition(":")
    except (binascii.Error, UnicodeDecodeError):
        separator = ""
    if not separator:
        raise Failure("bad-request", "Authorization: Basic has no base64 of NAME:PASSWORD")
    return Credentials(name, password)


class DoorUsers:
    """See the module."""

    def __init__(self, current: Callable[[], Server | None]) -> None:
        """`current` returns the server; None while the node of a cluster is not registered."""
        self._current = current
        self._known: OrderedDict[bytes, None] = OrderedDict()
        self._secret = os.urandom(32)
        self._checking = asyncio.Semaphore(MAX_AT_ONCE)
        self._waiting = 0

    async def principal(self, given: Credentials, host: str) -> KafkaPrincipal:
        """The principal of a user who may look. Raises Failure."""
        server = self._current()
        if server is None or not server.nodes:
            raise Failure("unavailable", "the node is not registered in its cluster")
        stored = [
            (mechanism, record)
            for mechanism in MECHANISMS.values()
            if (record := server.topics.state.scram.get((given.name, mechanism.type))) is not None
        ]
        if not await self._is_right(given, stored):
            await pause_s(FAILED_S)
            raise Failure("unauthorized", "the user is not known, or has another password")
        principal = KafkaPrincipal(USER, given.name)
        asked = Operation.DESCRIBE, ResourceType.CLUSTER, CLUSTER_NAME
        if not server.node.authorizer.allows(Looking(principal, f"/{host}"), *asked, log_denied=False):
            raise Failure("forbidden", f"{principal} may not describe the cluster")
        return principal

    async def _is_right(self, given: Credentials, stored: list[tuple[ScramMechanism, Any]]) -> bool:
        keys = b"".join(bytes(record.stored_key) for _, record in stored)
        text = "\0".join(given).encode("utf-8", "surrogatepass")
        digest = hmac.digest(self._secret, text + keys, "sha256")
        if stored and digest in self._known:
            self._known.move_to_end(digest)
            return True
        if self._waiting >= MAX_WAITING:
            raise Failure("busy", "too many passwords are to be checked")
        self._waiting += 1
        try:
            async with self._checking:
                is_right = await asyncio.to_thread(_is_password, given.password, stored)
        finally:
            self._waiting -= 1
        if is_right:
            self._known[digest] = None
            if len(self._known) > MAX_KNOWN:
                self._known.popitem(last=False)
        return is_right


def _is_password(password: str, stored: list[tuple[ScramMechanism, Any]]) -> bool:
    """Whether a credential is that of this password. An unknown user takes as long as a wrong password."""
    data = password.encode("utf-8", "surrogatepass")
    if not stored:
        hashlib.pbkdf2_hmac("sha256", data, _DECOY, MIN_ITERATIONS)
    found = False
    for mechanism, record in stored:
        salted = hashlib.pbkdf2_hmac(mechanism.algorithm, data, bytes(record.salt), record.iterations)
        credential = mechanism.credential(bytes(record.salt), salted, record.iterations)
        found |= hmac.compare_digest(credential.stored_key, bytes(record.stored_key))
    return found
