"""Addresses of hosts. Asks the system, which may take seconds: for a thread."""

from __future__ import annotations

import socket


def resolve(host: str) -> str | None:
    """The address of a host; None: there is none."""
    try:
        return str(socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)[0][4][0])
    except (OSError, UnicodeError):
        return None
