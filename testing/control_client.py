"""A client of the control of a server in a process of its own, over HTTP (docs/testcontrol.md)."""

from __future__ import annotations

import http.client
import json
from collections.abc import Mapping
from typing import Any, Final

from muster.testcontrol.errors import CannotBeDone, NoSuchFault, WrongValue
from muster.testcontrol.virtual_time import RanInVain

PATIENCE_S: Final = 60.0
"""How long an answer may take, in addition to a requested wait."""


class NoAnswer(CannotBeDone):
    """The control does not answer."""


class Control:
    """The client of one server, one request after the other. Raises CannotBeDone, and the errors of the answers."""

    def __init__(self, address: str) -> None:
        """`address`: HOST:PORT."""
        self._address = address

    def ask(self, method: str, path: str, body: object = None, *, waits_s: float = 0.0) -> dict[str, Any]:
        """An answer. Raises WrongValue (bad-request), NoSuchFault (not-found), RanInVain (timeout), CannotBeDone."""
        connection = http.client.HTTPConnection(self._address, timeout=PATIENCE_S + waits_s)
        try:
            connection.request(method, path, None if body is None else json.dumps(body))
            answer = connection.getresponse()
            told: dict[str, Any] = json.loads(answer.read())
        except (OSError, http.client.HTTPException, ValueError) as error:
            raise NoAnswer(f"the control at {self._address} does not answer: {error}") from error
        finally:
            connection.close()
        if answer.status == http.client.OK:
            return told
        code, message = told["error"]["code"], told["error"]["message"]
        raise _RAISED.get(code, CannotBeDone)(message)


_RAISED: Final[Mapping[str, type[Exception]]] = {
    "bad-request": WrongValue,
    "not-found": NoSuchFault,
    "timeout": RanInVain,
}
