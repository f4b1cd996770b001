"""A request of any API with one row in each of its lists."""

from __future__ import annotations

import re
from importlib import import_module
from typing import Any

from muster.coordinator.api.registry import SERVED
from muster.protocol.api import api
from muster.protocol.message import UnrepresentableField

_SEQUENCE = re.compile(r"Sequence\[(\w+)\]")
_PLAIN: dict[str, Any] = {"str": "orders", "int": 0, "bytes": bytes(16), "bool": False, "float": 0.0}


def request_of(key: int) -> Any:
    """A request in the newest version that is served."""
    served = api(key)
    module = import_module(f"muster.protocol.messages.{served._module}")
    made = _made(module, getattr(module, f"{served.name}Request"))
    while True:
        try:
            served.encode_request(SERVED[key].max_version, made)
        except UnrepresentableField as error:
            # only old versions have this field
            field = error.path.split(".")[1].split("[")[0]
            setattr(made, field, getattr(type(made)(), field))
        else:
            return made


def _made(module: Any, kind: Any) -> Any:
    made = kind()
    for name, declared in kind.__init__.__annotations__.items():
        rows = _SEQUENCE.match(str(declared))
        if name == "return":
            continue
        if rows is not None:
            inner = getattr(module, rows[1], None)
            setattr(made, name, [_PLAIN[rows[1]] if inner is None else _made(module, inner)])
        elif str(declared) == "str":
            setattr(made, name, "orders" if "topic" in name or name == "name" else "g")
    return made
