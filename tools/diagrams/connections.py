"""Draws the states and transitions of a connection, and of its authentication, for docs/dev/connections.md."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from muster.coordinator.net.connection_core import STATES, TRANSITIONS
from muster.coordinator.security import authentication
from tools.diagrams.pages import Parts, table


def transition_table(states: Sequence[str], transitions: Mapping[str, Mapping[str, str]]) -> str:
    """The table of transitions: a row for each event, a column for each state. A "-" means that the event raises."""
    rows = [(event, *(targets.get(state, "-") for state in states)) for event, targets in transitions.items()]
    return table(("what happens", *states), rows)


ON_SITE: Parts = {
    "connection_table": lambda: transition_table(STATES, TRANSITIONS),
    "authentication_table": lambda: transition_table(authentication.STATES, authentication.TRANSITIONS),
}
