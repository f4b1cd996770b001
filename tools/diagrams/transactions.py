"""Draws a transaction's states and transitions, and the effects of an EndTxn, for docs/dev/transactions.md."""

from __future__ import annotations

from muster.coordinator.transactions.end_txn import ABORT, COMMIT, NEW_CLIENT, OLD_CLIENT
from muster.coordinator.transactions.transaction import DEAD, EMPTY, TRANSITIONS
from tools.diagrams.pages import Parts, table

_ENDS = {COMMIT: "commit", ABORT: "abort"}


def state_diagram() -> str:
    """The states and all allowed transitions, as a mermaid diagram."""
    lines = ["```mermaid", "stateDiagram-v2", f"    [*] --> {EMPTY}"]
    for (state, event), target in TRANSITIONS.items():
        lines.append(f"    {state} --> {target}: {event}")
    lines += [f"    {DEAD} --> [*]", "```"]
    return "\n".join(lines)


def end_table() -> str:
    """The answers to an EndTxn of the newest producer: a row for each request, a column for each state."""
    states = list(dict.fromkeys(state for state, _ in OLD_CLIENT))
    rows = [
        (f"EndTxn 0-4, {words}", *(OLD_CLIENT[state, committed] for state in states))
        for committed, words in _ENDS.items()
    ]
    for is_retry, more in ((False, ""), (True, ", sent again with the previous epoch")):
        rows += [
            (f"EndTxn 5, {words}{more}", *(NEW_CLIENT.get((state, committed, is_retry), "-") for state in states))
            for committed, words in _ENDS.items()
        ]
    return table(("request", *states), rows)


PARTS: Parts = {
    "transaction_diagram": state_diagram,
}
ON_SITE: Parts = {"end_table": end_table}
