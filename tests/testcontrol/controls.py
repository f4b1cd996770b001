"""A client of the test control that checks each answer against the contract."""

from __future__ import annotations

import asyncio
import json
from contextlib import closing
from http.client import HTTPConnection
from typing import Any
from urllib.parse import urlsplit

from muster.coordinator.http.failure import STATUSES
from muster.testcontrol.http.contract import contract
from muster.testcontrol.http.server import OPERATIONS, ControlDoor


def check(value: Any, schema: dict[str, Any], where: str = "answer", of: dict[str, Any] | None = None) -> None:
    """Check that a value is as the description demands: that of the control, unless another one is given."""
    of = of or contract()
    if "$ref" in schema:
        schema = of["components"]["schemas"][schema["$ref"].rpartition("/")[2]]
    if "oneOf" in schema:
        if not any(_fits(value, one, of) for one in schema["oneOf"]):
            raise AssertionError(f"{where}: {value!r}")
        return
    kinds: dict[str, Any] = {"string": str, "integer": int, "number": (int, float), "boolean": bool, "array": list}
    kinds |= {"object": dict, "null": type(None)}
    kind = schema.get("type")
    if kind is not None:
        assert isinstance(value, kinds[kind]), f"{where}: {value!r} is no {kind}"
    if "enum" in schema:
        assert value in schema["enum"], f"{where}: {value!r}"
    for row in value if kind == "array" else ():
        check(row, schema["items"], f"{where}[]", of)
    if kind == "object":
        properties = schema.get("properties", {})
        missing = [name for name in schema.get("required", ()) if name not in value]
        assert not missing, f"{where}: {missing} are missing"
        for name, part in value.items():
            if name in properties:
                check(part, properties[name], f"{where}.{name}", of)
            else:
                assert schema.get("additionalProperties", True), f"{where}: {name} is not in the contract"


def _fits(value: Any, schema: dict[str, Any], of: dict[str, Any]) -> bool:
    try:
        check(value, schema, of=of)
    except AssertionError:
        return False
    return True


def operation(method: str, path: str) -> tuple[str, dict[str, Any]]:
    """The id of an operation, and the schema of its answer."""
    parts = urlsplit(path).path.split("/")
    best: tuple[int, dict[str, Any]] | None = None
    for template, methods in contract()["paths"].items():
        rows = template.split("/")
        if len(rows) == len(parts) and all(a.startswith("{") or a == b for a, b in zip(rows, parts, strict=True)):
            named = sum(one.startswith("{") for one in rows)
            if method.lower() in methods and (best is None or named < best[0]):
                best = named, methods[method.lower()]
    assert best is not None, (method, path)
    found = best[1]
    return found["operationId"], found["responses"]["200"]["content"]["application/json"]["schema"]


class ControlClient:
    """Asks one test control; `asked`: the operations that it asked for."""

    def __init__(self, control: ControlDoor, token: str | None = None) -> None:
        self.control = control
        self.asked: set[str] = set()
        self.headers = {} if token is None else {"Authorization": f"Bearer {token}"}

    async def send(self, method: str, path: str, body: Any = None, **headers: str) -> tuple[int, Any]:
        """The status and the answer, unchecked."""

        def exchange() -> tuple[int, Any]:
            connection = HTTPConnection(self.control.http.host, self.control.http.port, timeout=30)
            data = body if isinstance(body, bytes) else None if body is None else json.dumps(body)
            with closing(connection):
                connection.request(method, path, data, {**self.headers, **headers})
                response = connection.getresponse()
                return response.status, json.loads(response.read())

        return await asyncio.to_thread(exchange)

    async def ask(self, method: str, path: str, body: Any = None) -> Any:
        """The answer, checked against the contract."""
        status, answer = await self.send(method, path, body)
        assert status == 200, answer
        name, schema = operation(method, path)
        assert name in OPERATIONS
        self.asked.add(name)
        check(answer, schema)
        return answer

    async def refused(self, method: str, path: str, body: Any = None, **headers: str) -> Any:
        """The error text of a refused request."""
        status, answer = await self.send(method, path, body, **headers)
        check(answer, {"$ref": "#/components/schemas/Error"})
        error = answer["error"]
        assert status == STATUSES[error["code"]]
        return error
