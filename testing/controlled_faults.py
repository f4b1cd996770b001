"""The verbs on rules, scenarios and time of a server with a test control, and a client of that control."""

from __future__ import annotations

import asyncio
import http.client
import json
from collections.abc import Mapping
from contextlib import suppress
from typing import Any, Final
from urllib.parse import quote

from muster.testcontrol.checks import whole
from muster.testcontrol.errors import CannotBeDone, NoSuchFault, WrongValue
from muster.testcontrol.faults.actions import Call
from muster.testcontrol.faults.rule import Rule
from muster.testcontrol.virtual_time import RanInVain, TimeView

PATIENCE_S: Final = 60.0
"""How long an answer may take, beyond the wait that the request asks for."""


class NoAnswer(CannotBeDone):
    """The test control does not answer."""


class Control:
    """The client of one server's test control. It sends one request after the other."""

    def __init__(self, address: str) -> None:
        """`address`: HOST:PORT."""
        self._address = address

    def ask(self, method: str, path: str, body: object = None, *, waits_s: float = 0.0) -> dict[str, Any]:
        """Send a request; return the answer. Raises WrongValue (bad-request), NoSuchFault (not-found), RanInVain
        (timeout), CannotBeDone.
        """
        connection = http.client.HTTPConnection(self._address, timeout=PATIENCE_S + waits_s)
        try:
            connection.request(method, path, None if body is None else json.dumps(body))
            answer = connection.getresponse()
            content: dict[str, Any] = json.loads(answer.read())
        except (OSError, http.client.HTTPException, ValueError) as error:
            raise NoAnswer(f"the control at {self._address} does not answer: {error}") from error
        finally:
            connection.close()
        if answer.status == http.client.OK:
            return content
        code, message = content["error"]["code"], content["error"]["message"]
        raise _RAISED.get(code, CannotBeDone)(message)


_RAISED: Final[Mapping[str, type[Exception]]] = {
    "bad-request": WrongValue,
    "not-found": NoSuchFault,
    "timeout": RanInVain,
}


class ControlledRule:
    """A rule in force. Each use of its values asks the test control."""

    def __init__(self, control: Control, rule_id: str, fields: Mapping[str, Any]) -> None:
        self.id = rule_id
        self._control = control
        self._last = dict(fields)

    def to_json(self) -> dict[str, Any]:
        with suppress(NoSuchFault, CannotBeDone):  # the rule was removed
            self._last = self._control.ask("GET", f"/v1/faults/{self.id}")
        return self._last

    @property
    def hits(self) -> int:
        return int(self.to_json().get("hits", 0))

    @property
    def held(self) -> int:
        return int(self.to_json().get("held", 0))


class ControlledFaults:
    """The rules of the server. A rule with a Python function is refused: functions cannot be sent."""

    def __init__(self, control: Control) -> None:
        self._control = control
        self._forgotten = 0
        """The number of the newest hit that `log` leaves out."""

    @property
    def log(self) -> ControlledFaults:
        return self

    def after(self, number: int = 0) -> list[dict[str, Any]]:
        after = max(whole("after", number), self._forgotten)
        found: list[dict[str, Any]] = self._control.ask("GET", f"/v1/fault-log?after={after}")["hits"]
        return found

    def forget(self) -> None:
        for hit in self.after()[-1:]:
            self._forgotten = hit["number"]

    @property
    def rules(self) -> list[ControlledRule]:
        return [
            ControlledRule(self._control, row["id"], row) for row in self._control.ask("GET", "/v1/faults")["rules"]
        ]

    def add(self, match: Any, then: Any, when: Any, *, name: str = "") -> ControlledRule:
        wanted = Rule(match, then, when, name)
        if wanted.match.predicate is not None or wanted.then.name == Call.name:
            raise CannotBeDone("a function in Python cannot be sent to a server in a process of its own")
        shown = wanted.to_json()
        body = {part: shown[part] for part in ("match", "then", "when", "name")}
        found = self._control.ask("POST", "/v1/faults", body)
        return ControlledRule(self._control, found["id"], found)

    def release(self, rule_id: str) -> None:
        self._control.ask("POST", f"/v1/faults/{rule_id}/release")

    def remove(self, rule_id: str) -> None:
        """Remove a rule. Objects of the rule keep its last counts."""
        self._control.ask("DELETE", f"/v1/faults/{rule_id}")

    def clear(self) -> None:
        self._control.ask("DELETE", "/v1/faults")


class ControlledScenario:
    """A scenario, as the last answer has described it."""

    def __init__(self, fields: dict[str, Any]) -> None:
        self._fields = fields

    def to_json(self) -> dict[str, Any]:
        return self._fields


class ControlledScenarios:
    """The scenarios of the server."""

    def __init__(self, control: Control) -> None:
        self._control = control

    async def start(self, name: str, parameters: Mapping[str, Any]) -> ControlledScenario:
        fields = await asyncio.to_thread(self._control.ask, "POST", f"/v1/scenarios/{quote(name, safe='')}", parameters)
        return ControlledScenario(fields)

    def find(self, scenario_id: str) -> ControlledScenario:
        return ControlledScenario(self._control.ask("GET", f"/v1/scenarios/{scenario_id}"))

    def end(self, scenario_id: str) -> None:
        self._control.ask("DELETE", f"/v1/scenarios/{scenario_id}")


class ControlledTime:
    """The server's time."""

    def __init__(self, control: Control) -> None:
        self._control = control

    def now(self) -> TimeView:
        return TimeView(**self._control.ask("GET", "/v1/time"))

    def freeze(self) -> TimeView:
        return TimeView(**self._control.ask("POST", "/v1/time/freeze"))

    def thaw(self) -> TimeView:
        return TimeView(**self._control.ask("POST", "/v1/time/thaw"))

    def advance(self, ms: int) -> TimeView:
        return TimeView(**self._control.ask("POST", "/v1/time/advance", {"ms": ms}))
