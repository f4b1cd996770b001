"""The control in the HTTP door of a server under test. A request's verb is found by method and path.

`coordinator/http/admission.py` decides who may use it.
"""

from __future__ import annotations

import gc
import inspect
import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final
from urllib.parse import parse_qsl, unquote

import structlog
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import BaseRoute, Route

from muster.coordinator.config import Config
from muster.coordinator.http.address import DoorAddress
from muster.coordinator.http.door import body_of
from muster.coordinator.http.failure import Failure
from muster.coordinator.http.serving import ServerDoor
from muster.coordinator.server import Serve, serve
from muster.coordinator.server.metrics import ServerMetrics
from muster.testcontrol.errors import CannotBeDone, NoSuchFault, WaitFailed, WrongValue
from muster.testcontrol.faults.rule import Rule
from muster.testcontrol.http import verbs
from muster.testcontrol.http.contract import (
    DONE,
    Fields,
    Verb,
    VerbCall,
    contract,
    group_json,
    offsets_json,
    records_json,
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
    "configureGroup": verbs.configure_group,
    "groupRecords": lambda control, call: records_json(control.groups.describe(call.path["group"])),
    "waitAcknowledged": verbs.wait_acknowledged,
    "waitRecords": verbs.wait_records,
    "expireLocks": verbs.expire_locks,
    "deliverAgain": verbs.done(verbs.deliver_again),
    "holdAcknowledgements": verbs.done(lambda control, call: control.groups.hold_acknowledgements(call.path["group"])),
    "releaseAcknowledgements": lambda control, call: {
        **DONE,
        "released": control.groups.release_acknowledgements(call.path["group"]),
    },
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


class ControlRoute:
    """The ASGI application for all paths of the control."""

    def __init__(self, control: ServerControl) -> None:
        self._control = control

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Answer a request. Raises Failure."""
        request = Request(scope, receive)
        try:
            answer = await self._do(request)
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
        await JSONResponse(answer)(scope, receive, send)

    def _waited(self, failed: WaitFailed) -> Failure:
        group = group_json(self._control, self._control.groups.describe(failed.group_id))
        details = {"waited_for": failed.waited_for, "group": group, "timeline": list(failed.timeline)}
        return Failure("timeout", str(failed), details)

    async def _do(self, request: Request) -> Any:
        verb, named = find(request.method, request.scope["path"])
        body = await body_of(request, MAX_BYTES)
        try:
            fields = Fields(json.loads(body) if body.strip() else {})
        except ValueError as error:
            raise Failure("bad-request", f"the body is no JSON: {error}") from error
        except RecursionError:
            raise Failure("bad-request", "the body is JSON that is nested too deep") from None
        query = dict(parse_qsl(request.scope["query_string"].decode("latin-1")))
        answer = verb(self._control, VerbCall(named, query, fields))
        return await answer if inspect.isawaitable(answer) else answer


class ControlDoor:
    """A `process.Beside`: the HTTP door of a server under test, with the control. `http`: the HTTP server."""

    def __init__(
        self, control: ServerControl, address: DoorAddress, metrics: ServerMetrics, more: Sequence[BaseRoute] = ()
    ) -> None:
        """`metrics`: the observer of the control's server. `more`: further routes."""
        routes = [Route("/v1/{rest:path}", ControlRoute(control)), *more]
        self._beside = ServerDoor(address, control.server, metrics, routes)
        self.http = self._beside.door.http

    async def start(self) -> None:
        """Listen. Raises CannotListen."""
        await self._beside.start()
        log.info("the control listens", address=f"{self.http.host}:{self.http.port}")

    async def stop(self) -> None:
        """Stop listening, and cancel all answers. The call has no effect when the door does not listen."""
        await self._beside.stop()


def controlled(config: Config, *, starts_frozen: bool = False) -> tuple[ServerControl, ServerMetrics]:
    """A server under test with its control, and the observer of the server."""
    metrics = ServerMetrics()
    machine = ControlledMachine(starts_frozen=starts_frozen)
    return ServerControl(config, machine=machine, loaded=gc.freeze, metrics=metrics), metrics


def serving(address: DoorAddress, *, starts_frozen: bool = False) -> Serve:
    """The function that `server.run` runs. `starts_frozen`: time is frozen until the control moves it."""

    async def serve_it(config: Config, ready: Callable[[str, int], None]) -> None:
        control, metrics = controlled(config, starts_frozen=starts_frozen)
        await serve(config, ready, control.server, beside=ControlDoor(control, address, metrics))

    return serve_it
