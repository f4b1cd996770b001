"""`muster health`: does a server answer an ApiVersions request? Small and quick, for a container's health check."""

from __future__ import annotations

import argparse
import os
import socket
import struct
import sys

from muster.coordinator.config import ConfigError, load
from muster.coordinator.config.listeners import WILDCARDS, Address, parse_address, show

TIMEOUT_S = 5.0
"""How long to wait for the connection, and for each part of the answer."""

# api key 18 (ApiVersions), version 0, correlation id, client id
_BODY = struct.pack(">hhih", 18, 0, 7, 6) + b"health"
_REQUEST = struct.pack(">i", len(_BODY)) + _BODY


def health(options: argparse.Namespace) -> int:
    """Exit status 0 if the server answers, 1 if it does not, 2 if it is not clear which server to ask."""
    try:
        address = _address(options)
    except ConfigError as error:
        print(f"muster health: {error}", file=sys.stderr)
        return 2
    try:
        ask(address)
    except (OSError, EOFError) as error:
        print(f"muster health: {show(*address)} does not answer: {error}", file=sys.stderr)
        return 1
    print(f"muster health: {show(*address)} answers")
    return 0


def _address(options: argparse.Namespace) -> Address:
    if options.address is not None:
        return parse_address(options.address, "HOST:PORT", advertised=True)
    first = load(file=options.config, environment=os.environ).listeners[0]
    if first.host in WILDCARDS:  # an address, since a bare container may know no names
        return Address("::1" if first.host == "::" else "127.0.0.1", first.port)
    return Address(first.host, first.port)


def ask(address: Address) -> None:
    """Send one ApiVersions request and read its answer. Raises OSError or EOFError when there is no good one."""
    with socket.create_connection(address, TIMEOUT_S) as connection:
        connection.sendall(_REQUEST)
        size, correlation_id, error_code = struct.unpack(">iih", _read(connection, 10))
        if correlation_id != 7 or error_code != 0 or size < 6:
            raise OSError(f"its answer is not that of a Kafka server (error code {error_code})")
        _read(connection, size - 6)


def _read(connection: socket.socket, count: int) -> bytes:
    data = b""
    while len(data) < count:
        part = connection.recv(min(count - len(data), 65536))
        if not part:
            raise EOFError("it closed the connection")
        data += part
    return data
