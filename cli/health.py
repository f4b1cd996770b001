"""`muster health` checks whether a server answers ApiVersions, or whether its HTTP door says that it is ready.

It starts fast: containers run it as health check.
"""

from __future__ import annotations

import argparse
import errno
import os
import socket
import struct
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, TextIO

from muster.coordinator.config import ConfigError, load
from muster.coordinator.config.listeners import WILDCARDS, Address, parse_address, show

if TYPE_CHECKING:
    from ssl import SSLContext

TIMEOUT_S = 5.0
"""The longest wait for the connection, and for each part of the answer."""

# api key 18 (ApiVersions), version 0, correlation id, client id
_BODY = struct.pack(">hhih", 18, 0, 7, 6) + b"health"
_REQUEST = struct.pack(">i", len(_BODY)) + _BODY


def health(options: argparse.Namespace) -> int:
    """Exit status 0 if the server answers, 1 if it does not, 2 if the options name no server."""
    try:
        address, with_tls, question = _address(options)
        context = _context(options, with_tls)
    except ConfigError as error:
        _say(f"muster health: {error}", sys.stderr)
        return 2
    try:
        ask(address, context, question)
    except (OSError, EOFError) as error:
        why = getattr(error, "strerror", None) or str(error)
        _say(f"muster health: {show(*address)} does not answer: {why}{_hint(address, error, context)}", sys.stderr)
        return 1
    _say(f"muster health: {show(*address)} answers", sys.stdout)
    return 0


def _say(line: str, to: TextIO | None) -> None:
    """Print a line; a failure to print is ignored. `to` None: stdout or stderr was closed from the start."""
    if to is None:
        return
    try:
        print(line, file=to, flush=True)
    except OSError:
        # otherwise the interpreter would try to write the line again when it exits
        os.dup2(os.open(os.devnull, os.O_WRONLY), to.fileno())


def _hint(address: Address, error: Exception, context: SSLContext | None) -> str:
    if isinstance(error, OSError) and error.errno in (errno.ECONNREFUSED, errno.EHOSTUNREACH, errno.ENETUNREACH):
        return "; is a server listening there?"
    # this import is needed only for a server that does not answer
    from muster.client import hints

    if context is None and hints.speaks_tls(address):
        return "; it speaks TLS: give --tls, or --command-config FILE"
    if context is not None and hints.speaks_plainly(address):
        return "; it speaks no TLS: leave --tls out, or give the port of a listener with TLS"
    return ""


def _address(options: argparse.Namespace) -> tuple[Address, bool, Callable[[socket.socket], None]]:
    """The address to ask, whether it speaks TLS, and the function that asks."""
    if options.address is not None:
        return parse_address(options.address, "the address", advertised=True), options.tls, _ask
    config = load(file=options.config, environment=os.environ)
    listeners = config.listeners
    if options.tls and not any(one.has_tls for one in listeners):
        names = ", ".join(one.name for one in listeners)
        raise ConfigError(f"--tls: no listener of --config or the environment has TLS ({names}); give HOST:PORT")
    door = config.value("muster.http.listener")
    if door is not None and not options.tls:
        # most servers have no HTTP door
        from muster.coordinator.http.address import split_address

        found, has_tls = split_address(str(door), "muster.http.listener")
        if found.port:  # nobody knows the port of a door at a free port
            return _reachable(found), has_tls, _ask_door
    first = next((one for one in listeners if one.has_tls == options.tls), listeners[0])
    return _reachable(Address(first.host, first.port)), first.has_tls, _ask


def _reachable(address: Address) -> Address:
    if address.host in WILDCARDS:  # an address, not a name: a minimal container may not resolve names
        return Address("::1" if address.host == "::" else "127.0.0.1", address.port)
    return address


def _context(options: argparse.Namespace, with_tls: bool) -> SSLContext | None:
    from muster.client.kafka_client import read_command_config

    security = read_command_config(options.command_config)
    if security is not None:
        return security.context
    if not with_tls:
        return None
    import ssl

    # The health check only asks whether a server answers. Only with --command-config, the certificate is checked, too.
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    return context


def ask(
    address: Address, context: SSLContext | None = None, question: Callable[[socket.socket], None] | None = None
) -> None:
    """Ask for ApiVersions, or another question. A TLS alert that demands a certificate is an answer, too.

    Raises OSError, EOFError.
    """
    question = question or _ask
    with socket.create_connection(address, TIMEOUT_S) as connection:
        if context is None:
            question(connection)
            return
        try:
            with context.wrap_socket(connection, server_hostname=address.host) as encrypted:
                question(encrypted)
        except OSError as error:  # all errors of ssl are OSErrors
            # this import is needed only after a failure
            from muster.client import hints

            if getattr(error, "reason", None) not in hints.WANTS_CERTIFICATE:
                raise


def _ask(connection: socket.socket) -> None:
    connection.sendall(_REQUEST)
    size, correlation_id, error_code = struct.unpack(">iih", _read(connection, 10))
    if correlation_id != 7 or error_code != 0 or size < 6:
        raise OSError(f"its answer is not that of a Kafka server (error code {error_code})")
    _read(connection, size - 6)


def _ask_door(connection: socket.socket) -> None:
    connection.sendall(b"GET /readyz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
    data = b""
    while part := connection.recv(65536):
        data += part
    head, _, body = data.partition(b"\r\n\r\n")
    if head.split(b" ")[1:2] != [b"200"]:
        raise OSError(body.decode("utf-8", "replace") or "the answer is not that of an HTTP door")


def _read(connection: socket.socket, count: int) -> bytes:
    data = b""
    while len(data) < count:
        part = connection.recv(min(count - len(data), 65536))
        if not part:
            raise EOFError("it closed the connection")
        data += part
    return data
