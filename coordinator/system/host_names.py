"""Addresses of hosts, and why a server cannot listen at one of them. The system resolves names, maybe in seconds."""

from __future__ import annotations

import socket


class CannotListen(OSError):
    """A server cannot listen at `host` and `port`. `purpose`: the listener's name, or the option of the HTTP door."""

    def __init__(self, error: OSError, host: str, port: int, purpose: str) -> None:
        where = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
        super().__init__(error.errno, f"cannot listen on {where}: {error.strerror or error}")
        self.host = host
        self.port = port
        self.purpose = purpose


def resolve(host: str) -> str | None:
    """The address of a host; None when the host is unknown. The look-up may take seconds: call this in a thread."""
    try:
        return str(socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)[0][4][0])
    except (OSError, UnicodeError):
        return None
