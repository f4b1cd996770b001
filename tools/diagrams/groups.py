"""Draws a group's states and transitions, and the effects of a JoinGroup, for docs/dev/groups.md."""

from __future__ import annotations

from muster.coordinator.groups.classic.group import DEAD, EMPTY, TRANSITIONS
from muster.coordinator.groups.classic.join import DECISIONS, IMPOSSIBLE, SENDERS
from tools.diagrams.pages import Parts, table


def state_diagram() -> str:
    """The states and all allowed transitions, as a mermaid diagram."""
    lines = ["```mermaid", "stateDiagram-v2", f"    [*] --> {EMPTY}"]
    for (state, event), target in TRANSITIONS.items():
        lines.append(f"    {state} --> {target}: {event}")
    lines += [f"    {DEAD} --> [*]", "```"]
    return "\n".join(lines)


def decision_table() -> str:
    """The effects of a JoinGroup: a row for each kind of member that sends it, a column for each state."""
    states = dict.fromkeys(state for _, state in DECISIONS)
    rows = [(sender, *(_cell(DECISIONS[sender, state]) for state in states)) for sender in SENDERS]
    return table(("sender", *states), rows)


def _cell(decision: str) -> str:
    return "-" if decision == IMPOSSIBLE else decision


PARTS: Parts = {
    "state_diagram": state_diagram,
}
ON_SITE: Parts = {"decision_table": decision_table}
