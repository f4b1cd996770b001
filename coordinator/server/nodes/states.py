"""The states of a node, and the actions that each state allows."""

from __future__ import annotations

from enum import Enum
from typing import Final


class State(Enum):
    """The state of a node."""

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
"""Action -> state in which it is allowed -> the next state."""


class WrongNode(Exception):
    """The node does not exist, or its state does not allow the action."""
