"""The actions by their names in JSON."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import MISSING, fields
from typing import Any, Final

from muster.testcontrol.expected import called, sentence
from muster.testcontrol.faults.actions import (
    Action,
    Cut,
    Delay,
    Error,
    Hold,
    LoseAnswer,
    Note,
    Throttle,
    Trickle,
)
from muster.testcontrol.faults.errors import WrongFault
from muster.testcontrol.faults.older_broker import OlderBroker

KINDS: Final[Mapping[str, type[Any]]] = {
    kind.name: kind for kind in (Error, Delay, LoseAnswer, Cut, Trickle, Hold, Throttle, OlderBroker, Note)
}


def action_of(given: Mapping[str, Any]) -> Action:
    """The action of a JSON object. Raises WrongFault."""
    do = given.get("do")
    kind = KINDS.get(do) if isinstance(do, str) else None
    if kind is None:
        raise WrongFault(sentence("then: do", do, f"one of {', '.join(KINDS)}"))
    known = {field.name: field for field in fields(kind)}
    values = {name: value for name, value in given.items() if name != "do"}
    for name in values:
        if name not in known:
            raise WrongFault(f"then: {called(name)} means nothing to {kind.name}; {', '.join(known) or 'nothing'} does")
    missing = [name for name, field in known.items() if name not in values and field.default is MISSING]
    if missing:
        raise WrongFault(f"then: {kind.name} needs {', '.join(missing)}")
    made: Action = kind(**values)
    return made
