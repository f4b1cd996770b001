"""A client of one broker that sends any request over TCP, for `story`."""

from __future__ import annotations

import socket
import time
from typing import Any

from muster.protocol.api import api_named
from muster.protocol.frames import decode_response_header, request_frame
from muster.protocol.message import Message


class Wire:
    """Asks a broker over TCP."""

    def __init__(self, host: str, port: int) -> None:
        self._address = host, port
        self._sockets: dict[str, socket.socket] = {}

    def ask(self, connection: str, request: Message) -> Any:
        """See `story.Broker`."""
        if connection not in self._sockets:
            self._sockets[connection] = socket.create_connection(self._address, 10)
        sock = self._sockets[connection]
        kind = api_named(type(request).__name__.removesuffix("Request"))
        sock.sendall(request_frame(kind, kind.max_version, 1, request, "story"))
        size = int.from_bytes(self._read(sock, 4))
        data = self._read(sock, size)
        _, body = decode_response_header(kind, kind.max_version, data, 0, size)
        return kind.decode_response(kind.max_version, data, body, size)

    @staticmethod
    def _read(sock: socket.socket, count: int) -> bytes:
        data = b""
        while len(data) < count:
            part = sock.recv(count - len(data))
            assert part, "the broker closed the connection"
            data += part
        return data

    def __enter__(self) -> Wire:
        return self

    def __exit__(self, *_: object) -> None:
        for connection in [*self._sockets]:
            self.close(connection)

    def close(self, connection: str) -> None:
        """See `story.Broker`."""
        self._sockets.pop(connection).close()

    def wait(self, ms: int) -> None:
        """See `story.Broker`."""
        time.sleep(ms / 1_000)
