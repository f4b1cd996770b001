"""The HTTP door of a server: its routes, the order of checks, and its answers to errors.

`HttpServer` (`coordinator/system/http_server.py`) has the limits of clients. A request is admitted before its route is
found.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, Protocol

import structlog
from starlette.datastructures import Headers
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.routing import BaseRoute, Route, Router

from muster.coordinator.config.listeners import show
from muster.coordinator.http.address import LOOPBACK, DoorAddress
from muster.coordinator.http.admission import admit
from muster.coordinator.http.failure import Failure
from muster.coordinator.http.users import Credentials, credentials_of
from muster.coordinator.net.tls.context import ListenerTls
from muster.coordinator.security.authorizer import KafkaPrincipal
from muster.coordinator.system.clock import Clock
from muster.coordinator.system.http_server import HttpServer, Limits

log = structlog.get_logger("muster.http")

OPENAPI: Final = "/api/v1/openapi.json"
"""The path at which a server describes its paths."""
MAX_CONNECTIONS: Final = 500
"""The most connections. As many further connections get the answer that the server is busy."""
PATIENCE_MS: Final = 60_000
"""How long a client may take to send a request, or to read its answer. An idle connection is kept as long."""


class Users(Protocol):
    """Who may use a door with a password (`users.DoorUsers`)."""

    async def principal(self, given: Credentials, host: str) -> KafkaPrincipal:
        """The principal of a user who may look. Raises Failure."""


class Inside(Protocol):
    """What runs as long as a door."""

    async def start(self) -> None:
        """Begin."""

    async def stop(self) -> None:
        """End."""


class Door:
    """See the module. `http`: the HTTP server, which knows the port."""

    def __init__(
        self,
        clock: Clock,
        address: DoorAddress,
        routes: Sequence[BaseRoute],
        inside: Inside | None = None,
        users: Users | None = None,
    ) -> None:
        """`clock`: the machine's, which no test of an application moves. `inside` begins and ends
        with the door. `users`: who may have a password. None means that nobody may. Raises TlsError.
        """
        self._users = users
        self._inside = inside
        self._address = address
        paths = [route.path for route in routes if isinstance(route, Route) and "{" not in route.path]
        self._known = f"GET {OPENAPI} says what there is" if OPENAPI in paths else f"there are {', '.join(paths)}"
        self._router = Router(routes, redirect_slashes=False, default=self._not_found)
        self._tls = None if address.tls is None else ListenerTls("HTTP", address.tls)
        busy = Failure("busy", f"{MAX_CONNECTIONS} connections are open already")
        self.http = HttpServer(
            clock,
            address.host,
            address.port,
            Limits(MAX_CONNECTIONS, PATIENCE_MS),
            self._answer,
            busy.response(),
            address.option,
            None if self._tls is None else self._context,
        )

    async def start(self) -> None:
        """Listen. Raises CannotListen."""
        await self.http.start()
        if self._inside is not None:
            await self._inside.start()
        scheme = "http" if self._tls is None else "https"
        log.info("http is served", address=f"{scheme}://{show(self.http.host, self.http.port)}")

    async def stop(self) -> None:
        """Stop listening, and cancel all answers. The call has no effect when the door does not listen."""
        await self.http.stop()
        if self._inside is not None:
            await self._inside.stop()

    def _context(self) -> Any:
        assert self._tls is not None
        self._tls.renew()  # changed files are read again for the next connection
        return self._tls.now.context

    async def _user(self, scope: Any, headers: Mapping[str, str]) -> dict[str, Any]:
        """The entry `principal` of the scope for a request with a password. Raises Failure."""
        if self._users is None or (given := credentials_of(headers)) is None:
            return {}
        if scope["scheme"] != "https" and self._address.host not in LOOPBACK:
            raise Failure("unauthorized", "passwords are taken with TLS only")
        return {"principal": await self._users.principal(given, (scope.get("client") or ("127.0.0.1",))[0])}

    async def _answer(self, scope: Any, receive: Any, send: Any) -> None:
        # names of groups may have slashes: parts of a path are decoded after its route is found
        scope = {**scope, "path": scope["raw_path"].decode("latin-1"), "app": self}
        is_answered = False

        async def sending(message: Any) -> None:
            nonlocal is_answered
            is_answered = True
            await send(message)

        try:
            headers = Headers(scope=scope)
            scope |= await self._user(scope, headers)
            admit(self._address, scope["scheme"], scope["path"], headers, is_known_user="principal" in scope)
            await self._router(scope, receive, sending)
        except Failure as failure:
            await failure.response()(scope, receive, send)
        except HTTPException as refusal:
            # the router raises only this one, when the path is known and the method is not
            allowed = (refusal.headers or {}).get("Allow", "")
            wrong = Failure("method-not-allowed", f"{scope['path']} takes {allowed}, not {scope['method']}")
            await wrong.response()(scope, receive, send)
        except Exception as error:  # a bug costs this request, and not the server
            log.error("an HTTP request failed, because of a bug in the server", path=scope["path"], exc_info=error)
            if is_answered:
                raise
            await Failure("fault", f"a fault of the server: {error!r}").response()(scope, receive, send)

    async def _not_found(self, scope: Any, _receive: Any, _send: Any) -> None:
        raise Failure("not-found", f"there is no {scope['path'][:200]}; {self._known}")


async def body_of(request: Request, most: int) -> bytes:
    """The body of a request. Raises Failure when it has more than `most` bytes."""
    too_large = Failure("too-large", f"a body may have {most} bytes")
    announced = request.headers.get("content-length", "")
    if announced.isdigit() and int(announced[:20]) > most:
        raise too_large
    body = bytearray()
    async for part in request.stream():
        body += part
        if len(body) > most:
            raise too_large
    return bytes(body)
