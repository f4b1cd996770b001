"""The HTTP server of the control, on the server's own event loop. A request's verb is found by method and path.

Without a token the control is only for programs on this machine. Then the server listens on loopback only, and refuses
requests of web pages in a browser.
"""

from __future__ import annotations

import gc
import hmac
import inspect
import json
from collections.abc import Callable, Mapping
from typing import Any, Final
from urllib.parse import SplitResult, parse_qsl, unquote, urlsplit

import structlog

from muster.coordinator.config import Config
from muster.coordinator.server import THIS_MACHINE, Serve, serve
from muster.coordinator.system.http_server import HttpServer, Limits, Request, Response
from muster.testcontrol.errors import CannotBeDone, NoSuchFault, WaitFailed, WrongValue
from muster.testcontrol.faults.rule import Rule
from muster.testcontrol.http import verbs
from muster.testcontrol.http.contract import (
    DONE,
    Failure,
    Fields,
    Verb,
    VerbCall,
    contract,
    group_json,
    offsets_json,
    topic_json,
)
from muster.testcontrol.machine import ControlledMachine
from muster.testcontrol.server_control import ServerControl
from muster.testcontrol.virtual_time import RanInVain

log = structlog.get_logger("muster.testcontrol")

OPERATIONS: Final[Mapping[str, Verb]] = {
    "describe": lambda *_: contract(),
    "server": verbs.server,
    "listTopics": lambda control, _: {"topics": [topic_json(control, name) for name in control.topics.names()]},
    "createTopic": verbs.create_topic,
    "topic": lambda control, call: topic_json(control, call.path["topic"]),
    "deleteTopic": verbs.done(lambda control, call: control.topics.delete(call.path["topic"])),
    "growTopic": verbs.grow_topic,
    "produce": verbs.produce,
    "records": verbs.records,
    "listGroups": verbs.list_groups,
    "group": verbs.group,
    "offsets": lambda control, call: offsets_json(control.groups.describe(call.path["group"])),
    "history": verbs.history,
    "waitStable": verbs.wait_stable,
    "waitConsumed": verbs.wait_consumed,
    "rebalance": verbs.done(lambda control, call: control.groups.rebalance(call.path["group"])),
    "expireMember": verbs.done(lambda control, call: control.groups.expire(call.path["group"], verbs.member(call))),
    "removeMember": verbs.done(lambda control, call: control.groups.remove(call.path["group"], verbs.member(call))),
    "resetOffsets": verbs.reset_offsets,
    "holdJoins": verbs.done(lambda control, call: control.groups.hold_joins(call.path["group"])),
    "releaseJoins": lambda control, call: {**DONE, "released": control.groups.release(call.path["group"])},
    "listFaults": lambda control, _: {"rules": [rule.to_json() for rule in control.faults.rules]},
    "addFault": lambda control, call: control.faults.put(Rule.of(call.body.given)).to_json(),
    "clearFaults": verbs.clear_faults,
    "fault": lambda control, call: control.faults.find(call.path["rule"]).to_json(),
    "removeFault": verbs.done(lambda control, call: control.faults.remove(call.path["rule"])),
    "releaseFault": lambda control, call: control.faults.release(call.path["rule"]).to_json(),
    "faultLog": verbs.fault_log,
    "scenarios": verbs.scenarios,
    "startScenario": verbs.start_scenario,
    "scenario": lambda control, call: control.scenarios.find(call.path["scenario"]).to_json(),
    "endScenario": verbs.end_scenario,
    "time": lambda control, _: control.time.now()._asdict(),
    "freeze": lambda control, _: control.time.freeze()._asdict(),
    "advance": verbs.advance,
    "runUntil": verbs.run_until,
    "thaw": lambda control, _: control.time.thaw()._asdict(),
    "listNodes": verbs.list_nodes,
    "stopNode": verbs.on_node("stop"),
    "killNode": verbs.on_node("kill"),
    "pauseNode": verbs.on_node("pause"),
    "resumeNode": verbs.on_node("resume"),
    "returnNode": verbs.on_node("return_"),
}
"""The verbs by the contract's operationId."""


def find(method: str, path: str) -> tuple[Verb, dict[str, str]]:
    """The verb, and the parameters in the path. Raises Failure."""
    parts = path.split("/")
    matches = [(_match(template.split("/"), parts), methods) for template, methods in contract()["paths"].items()]
    fitting = [(named, methods) for named, methods in matches if named is not None]
    if not fitting:
        raise Failure("not-found", f"there is no {path}; GET /v1/openapi.json says what there is")
    # a path without parameters comes before one with parameters
    named, methods = min(fitting, key=lambda match: len(match[0]))
    operation = methods.get(method.lower())
    if operation is None:
        raise Failure("method-not-allowed", f"{path} takes {', '.join(map(str.upper, methods))}, not {method}")
    return OPERATIONS[operation["operationId"]], named


def _match(template: list[str], parts: list[str]) -> dict[str, str] | None:
    if len(template) != len(parts):
        return None
    named = {}
    for wanted, part in zip(template, parts, strict=True):
        if wanted.startswith("{"):
            named[wanted[1:-1]] = unquote(part)
        elif wanted != part:
            return None
    return named


MAX_BYTES: Final = 1024 * 1024
"""The most bytes of a request's body: JSON of this size is parsed in some 30 ms."""
MAX_CONNECTIONS: Final = 100
"""The most connections. As many further connections get the answer that the server is busy."""
PATIENCE_MS: Final = 60_000
"""How long a client may take to send a request, or to read its answer. An idle connection is kept as long."""
LOOPBACK: Final = frozenset(("127.0.0.1", "::1", "localhost"))
"""Hosts that only this machine can reach."""


class ControlServer:
    """See the module. `http`: the HTTP server."""

    def __init__(self, control: ServerControl, host: str, port: int, token: str | None = None) -> None:
        """`port` 0: any free port. `token`: clients must send this. Raises ValueError: off loopback without a token."""
        if token is None and host not in LOOPBACK:
            raise ValueError(f"{host} can be reached from other machines: that needs a token")
        self._control = control
        self._token = token
        limits = Limits(MAX_BYTES, MAX_CONNECTIONS, PATIENCE_MS)
        busy = Failure("busy", f"{MAX_CONNECTIONS} connections are open already")
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
            except Exception as error:  # a bug costs this request, not the control: the caller gets an error
                if isinstance(error, Failure):
                    raise
                log.error("the control failed", path=request.target, exc_info=error)
                raise Failure("fault", f"a fault of the server: {error!r}") from error
        except Failure as failure:
            return _json(failure.status, failure.to_json())

    def _waited(self, failed: WaitFailed) -> Failure:
        group = group_json(self._control, self._control.groups.describe(failed.group_id))
        details = {"waited_for": failed.waited_for, "group": group, "timeline": list(failed.timeline)}
        return Failure("timeout", str(failed), details)

    async def _do(self, request: Request) -> Any:
        self._admit(request.headers)
        target = _split(request.target)
        verb, named = find(request.method, target.path)
        if request.body is None:
            raise Failure("too-large", f"a body may have {MAX_BYTES} bytes")
        try:
            fields = Fields(json.loads(request.body) if request.body.strip() else {})
        except ValueError as error:
            raise Failure("bad-request", f"the body is no JSON: {error}") from error
        except RecursionError:
            raise Failure("bad-request", "the body is JSON that is nested too deep") from None
        answer = verb(self._control, VerbCall(named, dict(parse_qsl(target.query)), fields))
        return await answer if inspect.isawaitable(answer) else answer

    def _admit(self, headers: Mapping[bytes, bytes]) -> None:
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
    text = header.decode("latin-1")
    try:
        parts = urlsplit(f"//{text}")
        _ = parts.port
    except ValueError as error:
        raise Failure("bad-request", f"the header Host is {text[:100]!r}; expected: HOST or HOST:PORT") from error
    return parts.hostname


def _split(target: str) -> SplitResult:
    try:
        return urlsplit(target)
    except ValueError as error:
        raise Failure("bad-request", f"the target is {target[:100]!r}; expected: a path such as /v1/faults") from error


def serving(host: str, port: int, token: str | None = None, *, starts_frozen: bool = False) -> Serve:
    """The function that `server.run` runs. `starts_frozen`: time is frozen until the control moves it."""

    async def serve_it(config: Config, ready: Callable[[str, int], None]) -> None:
        machine = ControlledMachine(starts_frozen=starts_frozen)
        control = ServerControl(config, machine=machine, loaded=gc.freeze)
        await serve(config, ready, control.server, beside=ControlServer(control, host, port, token))

    return serve_it
