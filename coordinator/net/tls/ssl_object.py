"""What a handshake does beside OpenSSL's part: it waits for its turn, and tells the client why it fails."""

from __future__ import annotations

import contextlib
import socket
import ssl
from contextvars import ContextVar
from typing import Any, Final, Protocol


class UnderWay(Protocol):
    """The handshake that an object is for."""

    @property
    def socket(self) -> socket.socket:
        """The plain one."""

    @property
    def came(self) -> bytes:
        """What was read of it before `ssl` had the transport."""

    def may_go_on(self) -> bool:
        """Is it its turn? If not, `ssl` is asked for it again when it is."""


OF_THIS_TASK: Final[ContextVar[UnderWay | None]] = ContextVar("a handshake", default=None)
"""The handshake that a task, and what it starts, is about."""


class ListenerSSLObject(ssl.SSLObject):
    """See the module. Java tells a client why its handshake fails, too: asyncio and uvloop only close the connection
    then, and the client would take that for a fault of the network and try again.
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
        """Go on with it, if it is its turn; when it fails send the alert."""
        under_way = self._under_way
        if under_way is not None and self._incoming.pending and not under_way.may_go_on():
            raise ssl.SSLWantReadError
        try:
            super().do_handshake()
        except (ssl.SSLWantReadError, ssl.SSLWantWriteError):
            raise
        except ssl.SSLError:
            if under_way is not None:
                with contextlib.suppress(OSError):  # the client has gone, or reads nothing
                    under_way.socket.send(self._answers.read())
            raise
        self._under_way = None
