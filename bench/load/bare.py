"""A server that answers each frame with the same few bytes. So it costs only the event loop and the kernel. `python -m
bench.load.bare` listens on a free port of 127.0.0.1, prints the port, and runs until SIGTERM.
"""

from __future__ import annotations

import asyncio
import contextlib
import signal
from typing import cast

from bench.scenarios import event_loop_factory


class Bare(asyncio.Protocol):
    """Answers each frame like a Heartbeat v3 without an error. It reads only the correlation id."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Keep the transport."""
        self.write = cast("asyncio.WriteTransport", transport).write

    def data_received(self, data: bytes) -> None:
        """Answer the frame. The load sends the next frame only after the answer."""
        self.write(b"\0\0\0\x0a" + data[8:12] + b"\0\0\0\0\0\0")


async def main() -> None:
    """Serve until SIGTERM."""
    loop, ended = asyncio.get_running_loop(), asyncio.Event()
    loop.add_signal_handler(signal.SIGTERM, ended.set)
    server = await loop.create_server(Bare, "127.0.0.1", 0, backlog=2000)
    print(f"127.0.0.1:{server.sockets[0].getsockname()[1]}", flush=True)
    with contextlib.suppress(asyncio.CancelledError):
        await ended.wait()
    server.close()


if __name__ == "__main__":
    with asyncio.Runner(loop_factory=event_loop_factory()) as runner:
        runner.run(main())
