"""The HTTP server of the control, on the server's own event loop.

Without a token it is for programs on this machine. It then listens on loopback only, and refuses requests of web pages
in a browser.
"""

from __future__ import annotations

import hmac
import inspect
import json
from collections.abc import Mapping
from typing import Any, Final
from urllib.parse import SplitResult, parse_qsl, urlsplit

import structlog

from muster.coordinator.server import THIS_MACHINE
from muster.coordinator.system.http_server import HttpServer, Limits, Request, Response
from muster.testcontrol.errors import CannotBeDone, WaitFailed, WrongValue
from muster.testcontrol.faults.errors import NoSuchFault
from muster.testcontrol.http import shown
from muster.testcontrol.http.body import Fields
from muster.testcontrol.http.failures import Failure
from muster.testcontrol.http.routes import find
from muster.testcontrol.http.verb import VerbCall
from muster.testcontrol.server_control import ServerControl
from muster.testcontrol.virtual_time import RanInVain

log = structlog.get_logger("muster.rehearsal")

MOST_BYTES: Final = 1024 * 1024
"""The most bytes of a request's body: JSON of this size is parsed in some 30 ms."""
MOST_CONNECTIONS: Final = 100
"""The most connections. As many more get the answer that the server is busy."""
PATIENCE_MS: Final = 60_000
"""How long a client may take to send a request, or to read its answer. An idle connection is kept as long."""
LOOPBACK: Final = frozenset(("127.0.0.1", "::1", "localhost"))
"""Hosts that only this machine can reach."""


class ControlServer:
    """See the module. `http`: the HTTP server."""

    def __init__(self, rehearsal: ServerControl, host: str, port: int, token: str | None = None) -> None:
        """`port` 0: a free one; `token`: the one that clients must send. Raises ValueError: off loopback without a
        token.
        """
        if token is None and host not in LOOPBACK:
            raise ValueError(f"{host} can be reached from other machines: that needs a token")
        self._rehearsal = rehearsal
        self._token = token
        limits = Limits(MOST_BYTES, MOST_CONNECTIONS, PATIENCE_MS)
        busy = Failure("busy", f"{MOST_CONNECTIONS} connections are open already")
        # the control's own time, which no test moves
        clock = THIS_MACHINE.clock()
        answer_busy = _json(busy.status, busy.to_json())
        self.http = HttpServer(clock, host, port, limits, self._answer, answer_busy, "control")

    async def start(self) -> None:
        """Listen. Raises CannotListen."""
        await self.http.start()
        log.info("the control listens", address=f"{self.http.host}:{self.http.port}")

    async def stop(self) -> None:
        """Stop listening, and answer nobody; has no effect if it does not listen."""
        await self.http.stop()

    async def _answer(self, request: Request) -> Response:
        try:
            try:
                return _json(200, await self._do(request))
            except CannotBeDone as refusal:
                raise Failure("conflict", str(refusal)) from refusal
            except WrongValue as wrong:
                raise Failure("bad-request", str(wrong)) from wrong
            except NoSuchFault as missing:
                raise Failure("not-found", str(missing)) from missing
            except WaitFailed as failed:
                raise self._waited(failed) from failed
            except RanInVain as failed:
                raise Failure("timeout", str(failed)) from failed
            except Exception as error:  # a fault of ours costs this request, not the control: the caller gets an error
                if isinstance(error, Failure):
                    raise
                log.error("the control failed", path=request.target, exc_info=error)
                raise Failure("fault", f"a fault of the server: {error!r}") from error
        except Failure as failure:
            return _json(failure.status, failure.to_json())

    def _waited(self, failed: WaitFailed) -> Failure:
        group = shown.group(self._rehearsal, self._rehearsal.groups.describe(failed.group_id))
        details = {"waited_for": failed.waited_for, "group": group, "timeline": list(failed.timeline)}
        return Failure("timeout", str(failed), details)

    async def _do(self, request: Request) -> Any:
        self._admit(request.headers)
        target = _split(request.target)
        verb, named = find(request.method, target.path)
        if request.body is None:
            raise Failure("too-large", f"a body may have {MOST_BYTES} bytes")
        try:
            fields = Fields(json.loads(request.body) if request.body.strip() else {})
        except ValueError as error:
            raise Failure("bad-request", f"the body is no JSON: {error}") from error
        except RecursionError:
            raise Failure("bad-request", "the body is JSON that is nested too deep") from None
        answer = verb(self._rehearsal, VerbCall(named, dict(parse_qsl(target.query)), fields))
        return await answer if inspect.isawaitable(answer) else answer

    def _admit(self, headers: Mapping[bytes, bytes]) -> None:
        """Raises Failure for a client without permission."""
        if self._token is not None:
            shown_token = headers.get(b"authorization", b"")
            if not hmac.compare_digest(shown_token, b"Bearer " + self._token.encode()):
                raise Failure("unauthorized", "the token is missing, or another one: Authorization: Bearer …")
        elif b"origin" in headers or _host_of(headers.get(b"host", b"localhost")) not in LOOPBACK:
            # a web page whose host name resolves to this machine sends another Host
            raise Failure("unauthorized", "a page in a browser may not do that without a token")


def _json(status: int, answer: Any) -> Response:
    return Response(status, "application/json", json.dumps(answer, ensure_ascii=False).encode())


def _host_of(header: bytes) -> str | None:
    """The host in a Host header. Raises Failure for a wrong header."""
    text = header.decode("latin-1")
    try:
        parts = urlsplit(f"//{text}")
        _ = parts.port
    except ValueError as error:
        raise Failure("bad-request", f"the header Host is {text[:100]!r}; expected: HOST or HOST:PORT") from error
    return parts.hostname


def _split(target: str) -> SplitResult:
    """The path and the query of a request. Raises Failure for a wrong target."""
    try:
        return urlsplit(target)
    except ValueError as error:
        raise Failure("bad-request", f"the target is {target[:100]!r}; expected: a path such as /v1/faults") from error
