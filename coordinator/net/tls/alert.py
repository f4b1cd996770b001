"""Why a handshake fails, told to the client by TLS's own alert."""

from __future__ import annotations

import contextlib
import socket
import ssl
from contextvars import ContextVar
from typing import Any, Final

OF_THIS_TASK: Final[ContextVar[socket.socket | None]] = ContextVar("the socket of a handshake", default=None)
"""The socket of the handshake that a task, and what it starts, is about."""


class TellingSSLObject(ssl.SSLObject):
    """Tells the client why its handshake fails, as Java does: asyncio and uvloop only close the connection then, and
    the client would take that for a fault of the network and try again.
    """

    _answers: ssl.MemoryBIO
    _answers_to: socket.socket | None

    @classmethod
    def _create(cls, incoming: ssl.MemoryBIO, outgoing: ssl.MemoryBIO, **how: Any) -> TellingSSLObject:
        made: TellingSSLObject = super()._create(incoming, outgoing, **how)  # type: ignore[misc]  # SSLContext calls it
        made._answers, made._answers_to = outgoing, OF_THIS_TASK.get()
        return made

    def do_handshake(self) -> None:
        """Go on with it; when it fails send the alert."""
        try:
            super().do_handshake()
        except (ssl.SSLWantReadError, ssl.SSLWantWriteError):
            raise
        except ssl.SSLError:
            if self._answers_to is not None:
                with contextlib.suppress(OSError):  # the client has gone, or reads nothing
                    self._answers_to.send(self._answers.read())
            raise
        self._answers_to = None
