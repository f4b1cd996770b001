"""A connection that sends bytes and gives back frames: what a probe needs, and no more."""

from __future__ import annotations

import asyncio
import struct
from collections.abc import Awaitable, Callable

from muster.conform.player.connection import hang_up

Dial = Callable[[], Awaitable[tuple[asyncio.StreamReader, asyncio.StreamWriter]]]
"""Opens a connection that is ready for requests: with TLS, and logged in, if the target demands it. Raises OSError."""

MAX_ANSWER_BYTES = 100_000_000
"""No answer of Kafka to a probe is longer."""


class Closed(Exception):
    """The target closed the connection instead of answering."""


class Silent(Exception):
    """The target has neither answered nor closed the connection in time."""


class Link:
    """One connection."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Take over a connection that `Dial` has opened."""
        self.reader, self.writer = reader, writer

    async def write(self, raw: bytes) -> None:
        """Send bytes as they are. Raises Closed."""
        try:
            self.writer.write(raw)
            await self.writer.drain()
        except (ConnectionError, OSError) as error:
            raise Closed(str(error)) from error

    async def frame(self, patience_s: float) -> bytes:
        """The next answer, without its length bytes. Raises Closed or Silent, or ValueError for a wrong length."""
        try:
            async with asyncio.timeout(patience_s):
                (size,) = struct.unpack(">i", await self.reader.readexactly(4))
                if not 4 <= size <= MAX_ANSWER_BYTES:
                    raise ValueError(f"the answer's length is {size}")
                return await self.reader.readexactly(size)
        except TimeoutError:
            raise Silent(f"there was no answer within {patience_s:g} s") from None
        except (asyncio.IncompleteReadError, ConnectionError, OSError) as error:
            raise Closed("the connection was closed") from error

    async def is_closed(self, patience_s: float) -> bool:
        """Whether the target closes the connection in time; whatever it still sends is read and dropped."""
        try:
            async with asyncio.timeout(patience_s):
                while await self.reader.read(65_536):
                    pass
        except TimeoutError:
            return False
        except (ConnectionError, OSError):
            return True
        return True

    async def close(self) -> None:
        """Close the connection."""
        await hang_up(self.writer)


def framed(body: bytes) -> bytes:
    """A request with the bytes of its length."""
    return struct.pack(">i", len(body)) + body


async def plain(host: str, port: int) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """A connection without TLS and without a login."""
    return await asyncio.open_connection(host, port, limit=1 << 20)
