"""The parameters and results of the control's verbs, and the contract that lists them."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Mapping
from functools import cache
from importlib.resources import files
from typing import Any, Final, NamedTuple

from muster.testcontrol.http.body import Fields
from muster.testcontrol.server_control import ServerControl


class VerbCall(NamedTuple):
    """A request. `path`: the parameters in its path, by their names in the contract."""

    path: Mapping[str, str]
    query: Mapping[str, str]
    body: Fields


Answer = Mapping[str, Any]
Verb = Callable[[ServerControl, VerbCall], Answer | Awaitable[Answer]]
DONE: Final[Answer] = {"done": True}


@cache
def contract() -> dict[str, Any]:
    """The contract: `openapi.json`."""
    read: dict[str, Any] = json.loads(files(__package__).joinpath("openapi.json").read_text(encoding="utf-8"))
    return read
