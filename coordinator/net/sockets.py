"""Addresses of sockets as Kafka writes them, and the bytes that the operating system has not delivered yet."""

from __future__ import annotations

import socket
import struct
from ipaddress import ip_address
from typing import Any

_MAPPED = "::ffff:"


def plain_host(host: str) -> str:
    """The numeric address without a scope. An IPv4 address of an IPv6 socket becomes an IPv4 address again."""
    if ":" not in host:
        return host
    host = host.partition("%")[0]
    if host.startswith(_MAPPED) and "." in host:
        return host[len(_MAPPED) :]
    return host


def host_and_port(address: Any) -> tuple[str, int]:
    """Host and port of getpeername() or getsockname(); ("", 0) when the socket no longer has an address."""
    if isinstance(address, tuple) and len(address) >= 2:
        return plain_host(address[0]), address[1]
    return "", 0


def client_host(host: str) -> str:
    """Kafka's clientHost: Java's text of an address without a name ("/127.0.0.1", "/0:0:0:0:0:0:0:1")."""
    if ":" not in host:
        return "/" + host
    packed = socket.inet_pton(socket.AF_INET6, host)
    return "/" + ":".join(f"{packed[i] << 8 | packed[i + 1]:x}" for i in range(0, 16, 2))


def with_port(host: str, port: int) -> str:
    """HOST:PORT for log lines; an IPv6 host stands in brackets."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def numeric(host: str) -> str | None:
    """The address that a user has written, as Java writes it. None means that the text is a host name."""
    try:
        found = ip_address(host.removeprefix("[").removesuffix("]").partition("%")[0])
    except ValueError:
        return None
    return client_host(plain_host(str(found)))[1:]


def network_of(host: str) -> str:
    """The addresses that count as one client: an IPv4 address, or 64 bits of an IPv6 address (Java's text)."""
    return ":".join(host.split(":")[:4]) if ":" in host else host


try:
    import fcntl
    import termios
except ImportError:  # on Windows, bytes count as delivered once the system has them
    fcntl = None  # type: ignore[assignment]  # a platform without it


def undelivered_bytes(descriptor: int) -> int:
    """The bytes that the peer's system has not confirmed; 0 if this is not known."""
    if fcntl is None or descriptor < 0:
        return 0
    try:
        (size,) = struct.unpack("i", fcntl.ioctl(descriptor, termios.TIOCOUTQ, bytes(4)))
    except OSError:
        return 0
    return int(size)
