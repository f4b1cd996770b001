"""An `SSLObject` with two additions: its handshake may wait, and the client gets an alert when the handshake fails."""

from __future__ import annotations

import contextlib
import socket
import ssl
from contextvars import ContextVar
from typing import Any, Final, Protocol


class UnderWay(Protocol):
    """The handshake of an object."""

    @property
    def socket(self) -> socket.socket:
        """The plain socket."""

    @property
    def came(self) -> bytes:
        """The bytes that were read from it before `ssl` had the transport."""

    def may_go_on(self) -> bool:
        """Whether the next step may be done. If not, `ssl` is called again when it may."""


OF_THIS_TASK: Final[ContextVar[UnderWay | None]] = ContextVar("a handshake", default=None)
"""The handshake that a task, and the tasks that it starts, are for."""


class ListenerSSLObject(ssl.SSLObject):
    """See the module. Java also sends a client the reason of a failed handshake. asyncio and uvloop only close the
    connection. The client would take that for a network error and retry.
    """

    _incoming: ssl.MemoryBIO
    _answers: ssl.MemoryBIO
    _under_way: UnderWay | None

    @classmethod
    def _create(cls, incoming: ssl.MemoryBIO, outgoing: ssl.MemoryBIO, **how: Any) -> ListenerSSLObject:
        made: ListenerSSLObject = super()._create(incoming, outgoing, **how)  # type: ignore[misc]  # SSLContext calls it
        made._incoming, made._answers, made._under_way = incoming, outgoing, OF_THIS_TASK.get()
        if made._under_way is not None and made._under_way.came:
            incoming.write(made._under_way.came)
        return made

    def do_handshake(self) -> None:
        """Do the next step if it may be done. When the handshake fails, send the alert."""
        under_way = self._under_way
        if under_way is not None and self._incoming.pending and not under_way.may_go_on():
            raise ssl.SSLWantReadError
        try:
            super().do_handshake()
        except (ssl.SSLWantReadError, ssl.SSLWantWriteError):
            raise
        except ssl.SSLError:
            if under_way is not None:
                with contextlib.suppress(OSError):  # the client has disconnected, or does not read
                    under_way.socket.send(self._answers.read())
            raise
        self._under_way = None
