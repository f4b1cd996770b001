"""The actions by their names, as JSON has them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from typing import Any, Final

from muster.coordinator.rehearsal.faults.actions import (
    Action,
    Cut,
    Delay,
    Error,
    Hold,
    LoseAnswer,
    Throttle,
    Trickle,
)
from muster.coordinator.rehearsal.faults.errors import WrongFault
from muster.coordinator.rehearsal.faults.older_broker import OlderBroker

KINDS: Final[Mapping[str, type[Any]]] = {
    kind.name: kind for kind in (Error, Delay, LoseAnswer, Cut, Trickle, Hold, Throttle, OlderBroker)
}


def action_of(given: Mapping[str, Any]) -> Action:
    """As JSON has it. Raises WrongFault."""
    kind = KINDS.get(str(given.get("do")))
    if kind is None:
        raise WrongFault(f"then: do is {given.get('do')!r}; one of {', '.join(KINDS)} was expected")
    known = {field.name: field for field in fields(kind)}
    values = {name: value for name, value in given.items() if name != "do"}
    for name, value in values.items():
        if name not in known:
            raise WrongFault(f"then: {name} means nothing to {kind.name}; {', '.join(known) or 'nothing'} does")
        wanted = str(known[name].type)
        fits = isinstance(value, bool) if wanted == "bool" else not isinstance(value, bool)
        if not fits or (wanted.startswith("str") and not isinstance(value, str | None)):
            raise WrongFault(f"then: {name} is {value!r}; {wanted} was expected")
    try:
        made: Action = kind(**values)
        return made
    except TypeError:
        missing = [name for name in known if name not in values]
        raise WrongFault(f"then: {kind.name} needs {', '.join(missing)}") from None
