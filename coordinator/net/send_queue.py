"""The bytes that a socket was given and that the operating system has not delivered yet."""

from __future__ import annotations

import struct

try:
    import fcntl
    import termios
except ImportError:  # Windows: bytes that the system has count as delivered
    fcntl = None  # type: ignore[assignment]


def undelivered_bytes(descriptor: int) -> int:
    """The bytes that the peer's system has not confirmed. 0 where the system does not report it, or for a negative
    descriptor.
    """
    if fcntl is None or descriptor < 0:
        return 0
    try:
        (size,) = struct.unpack("i", fcntl.ioctl(descriptor, termios.TIOCOUTQ, bytes(4)))
    except OSError:
        return 0
    return int(size)
