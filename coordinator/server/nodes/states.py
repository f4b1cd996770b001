"""In which states a node can be, and what may be done to it then."""

from __future__ import annotations

from enum import Enum
from typing import Final


class State(Enum):
    """Of a node."""

    UP = "up"
    STOPPING = "stopping"
    STOPPED = "stopped"
    KILLED = "killed"
    PAUSED = "paused"
    RETURNING = "returning"


ALLOWED: Final = {
    "stop": {State.UP: State.STOPPING},
    "kill": {State.UP: State.KILLED, State.STOPPING: State.KILLED, State.PAUSED: State.KILLED},
    "pause": {State.UP: State.PAUSED},
    "resume": {State.PAUSED: State.RETURNING},
    "return": {State.STOPPED: State.RETURNING, State.KILLED: State.RETURNING},
}
"""What may be done to a node in which state, and the state that it has then."""


class WrongNode(Exception):
    """There is no such node, or that cannot be done to it now."""
