"""What docs/connections.md shows of a connection and of its authentication: their states and transitions."""

from __future__ import annotations

from muster.coordinator.net.connection_core import CLOSED, CLOSING, LOST, STATES, TRANSITIONS, WAITING
from muster.coordinator.security import authentication
from tools.diagrams.pages import Parts, table


def connection_diagram() -> str:
    """The states of a connection and what leads from each to the next; its end, possible in each, is left out."""
    lines = ["```mermaid", "stateDiagram-v2", f"    [*] --> {WAITING}"]
    for event, targets in TRANSITIONS.items():
        lines += [
            f"    {state} --> {target}: {event}"
            for state, target in targets.items()
            if target is not CLOSING and target is not CLOSED
        ]
    return "\n".join([*lines, f"    {CLOSING} --> {CLOSED}: {LOST}", f"    {CLOSED} --> [*]", "```"])


def connection_table() -> str:
    """The whole of it: a row for each event, a column for each state; a cell without a target raises."""
    rows = [(event, *(targets.get(state, "-") for state in STATES)) for event, targets in TRANSITIONS.items()]
    return table(("what happens", *STATES), rows)


def authentication_table() -> str:
    """The same of an authentication."""
    transitions = authentication.TRANSITIONS
    events = dict.fromkeys(event for _, event in transitions)
    states = authentication.STATES
    rows = [(event, *(transitions.get((state, event), "-") for state in states)) for event in events]
    return table(("what happens", *states), rows)


PARTS: Parts = {
    "connection_diagram": connection_diagram,
    "connection_table": connection_table,
    "authentication_table": authentication_table,
}
