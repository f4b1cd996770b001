"""A network between two programs that can hold back all bytes. Held bytes are neither lost nor delivered."""

from __future__ import annotations

import socket
import threading
from contextlib import suppress

CHUNK = 65_536


class HeldNetwork:
    """Accepts connections at `port`, and forwards them to `target`. Its threads end with the process or by `close`."""

    def __init__(self, target: int) -> None:
        self.target = target
        self._open = threading.Event()
        self._open.set()
        self._lock = threading.Lock()
        self._sockets: set[socket.socket] = set()
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    @property
    def holds(self) -> bool:
        """Whether the network holds the bytes back."""
        return not self._open.is_set()

    def hold(self) -> None:
        """Hold back all bytes from now on."""
        self._open.clear()

    def let_go(self) -> None:
        """Deliver the held bytes and all later ones."""
        self._open.set()

    def drop(self, target: int) -> None:
        """Drop the held bytes, and close all connections. New connections go to `target`."""
        self.target = target
        with self._lock:
            sockets, self._sockets = self._sockets, set()
        for one in sockets:
            with suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)
        self._open.set()

    def close(self) -> None:
        """Accept no more connections, and close all."""
        with suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self.drop(self.target)

    def _accept(self) -> None:
        while True:
            try:
                one, _ = self._listener.accept()
            except OSError:
                return
            self._open.wait()
            try:
                other = socket.create_connection(("127.0.0.1", self.target))
            except OSError:
                one.close()
                continue
            with self._lock:
                self._sockets |= {one, other}
            for pair in ((one, other), (other, one)):
                threading.Thread(target=self._pump, args=pair, daemon=True).start()

    def _pump(self, source: socket.socket, sink: socket.socket) -> None:
        with suppress(OSError):
            while data := source.recv(CHUNK):
                self._open.wait()
                with self._lock:
                    if sink not in self._sockets:
                        break  # the connection was dropped while its bytes were held
                sink.sendall(data)
        with self._lock:
            self._sockets.discard(source)
        for one in (source, sink):
            with suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)
        source.close()  # the thread of the other direction closes the other connection
