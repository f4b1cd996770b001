"""Finds out what kind of server gave an unexpected answer. Other modules import this one only after a failure."""

from __future__ import annotations

import socket
import ssl
import struct
from contextlib import suppress
from typing import Final

from muster.coordinator.config.listeners import Address

TIMEOUT_S: Final = 3.0
"""How long a listener may take to answer a first request."""
ALERT: Final = b"\x15\x03"
"""The first bytes of a TLS alert. No answer of Kafka begins with these bytes."""
_API_VERSIONS: Final = struct.pack(">hhih", 18, 0, 1, -1)
_SASL_HANDSHAKE: Final = struct.pack(">hhihh", 17, 1, 2, -1, 0)
_WITH_TLS: Final = "security.protocol=SSL or SASL_SSL in the file of --command-config"
WANTS_CERTIFICATE: Final = (
    "TLSV13_ALERT_CERTIFICATE_REQUIRED",
    "SSLV3_ALERT_HANDSHAKE_FAILURE",
    "SSLV3_ALERT_BAD_CERTIFICATE",
)
"""The names that OpenSSL gives the alerts of a server that demands a certificate."""
SHOW_CERTIFICATE: Final = (
    "it demands a certificate that it trusts: look at ssl.keystore.location in the file of --command-config"
)
SPEAKS_NO_TLS: Final = (
    "it speaks no TLS: give security.protocol=PLAINTEXT or SASL_PLAINTEXT in the file of --command-config, or the port "
    "of a listener with TLS"
)


def of_silence(address: Address, protocol: str, context: ssl.SSLContext | None) -> str | None:
    """Why a listener closes the connection of a client with this protocol, and what to do; None: not known."""
    if context is None and speaks_tls(address):
        return f"it speaks TLS: give {_WITH_TLS}"
    mechanisms = None if protocol.startswith("SASL") else sasl_mechanisms(address, context)
    if mechanisms is not None:
        wanted = "SASL_PLAINTEXT" if context is None else "SASL_SSL"
        return (
            f"it serves only clients that say who they are (by {', '.join(mechanisms)}): give security.protocol="
            f"{wanted} and sasl.mechanism in the file of --command-config"
        )
    return None


def speaks_tls(address: Address) -> bool:
    """Whether the server at this address speaks TLS."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    with suppress(ssl.SSLWantReadError):
        context.wrap_bio(incoming, outgoing, server_hostname=address.host or None).do_handshake()
    answer = _answer(address, outgoing.read(), 3)
    # a TLS handshake or alert: the alert may demand a client certificate or another version of TLS
    return answer[:2] in (b"\x16\x03", ALERT)


def speaks_plainly(address: Address) -> bool:
    """Whether a broker at this address answers an ApiVersions request without TLS."""
    answer = _answer(address, _framed(_API_VERSIONS), 8)
    return len(answer) == 8 and struct.unpack(">ii", answer)[1] == 1


def sasl_mechanisms(address: Address, context: ssl.SSLContext | None) -> list[str] | None:
    """The SASL mechanisms of the broker at this address; None if it has no SASL. `context` None: ask without TLS."""
    answer = _answer(address, _framed(_SASL_HANDSHAKE), 4096, context)
    try:
        _, correlation_id, error_code, count = struct.unpack_from(">iihi", answer)
        position, found = 14, []
        for _ in range(count):
            (length,) = struct.unpack_from(">h", answer, position)
            found.append(answer[position + 2 : position + 2 + length].decode())
            position += 2 + length
    except (struct.error, ValueError):
        return None
    return found if correlation_id == 2 and error_code == 33 and found else None


def _framed(body: bytes) -> bytes:
    return struct.pack(">i", len(body)) + body


def _answer(address: Address, request: bytes, max_bytes: int, context: ssl.SSLContext | None = None) -> bytes:
    try:
        with socket.create_connection(address, TIMEOUT_S) as connection:
            if context is not None:
                with context.wrap_socket(connection, server_hostname=address.host) as encrypted:
                    return _exchanged(encrypted, request, max_bytes)
            return _exchanged(connection, request, max_bytes)
    except OSError:
        return b""


def _exchanged(connection: socket.socket, request: bytes, max_bytes: int) -> bytes:
    connection.sendall(request)
    data = b""
    while len(data) < max_bytes and (len(data) < 4 or len(data) < 4 + struct.unpack(">i", data[:4])[0]):
        part = connection.recv(max_bytes - len(data))
        if not part:
            break
        data += part
    return data
