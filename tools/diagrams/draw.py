"""Rewrite the drawn parts of docs/groups.md from the tables of the core.

    python -m tools.diagrams.draw [--check]

A drawn part stands between `<!-- drawn: NAME -->` and `<!-- end -->`; the rest of the page is written by hand. With
--check nothing is written, and the exit code is 1 when the page is stale.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Callable
from pathlib import Path

from muster.coordinator.groups.join import DECISIONS, IMPOSSIBLE, WHO
from muster.coordinator.groups.states import DEAD, EMPTY, STATES, TRANSITIONS

PAGE = Path(__file__).parents[2] / "docs" / "groups.md"
_PART = re.compile(r"(<!-- drawn: (\w+) -->\n).*?(<!-- end -->)", re.DOTALL)


def state_diagram() -> str:
    """The states and every legal transition, as a mermaid diagram."""
    lines = ["```mermaid", "stateDiagram-v2", f"    [*] --> {EMPTY}"]
    for (state, event), target in TRANSITIONS.items():
        lines.append(f"    {state} --> {target}: {event}")
    lines += [f"    {DEAD} --> [*]", "```"]
    return "\n".join(lines)


def transition_table() -> str:
    """The same as a table: a row for each event, a column for each state; a cell without a target raises."""
    events = dict.fromkeys(event for _, event in TRANSITIONS)
    rows = [(event, *(TRANSITIONS.get((state, event), "-") for state in STATES)) for event in events]
    return table(("what happens", *STATES), rows)


def decision_table() -> str:
    """What is done with a JoinGroup: a row for each kind of asker, a column for each state."""
    states = dict.fromkeys(state for _, state in DECISIONS)
    rows = [(who, *(cell(DECISIONS[who, state]) for state in states)) for who in WHO]
    return table(("who asks", *states), rows)


def cell(decision: str) -> str:
    """A decision in the table; what cannot be is left out."""
    return "-" if decision == IMPOSSIBLE else decision


def table(head: tuple[str, ...], rows: list[tuple[str, ...]]) -> str:
    """A Markdown table."""
    lines = [head, ("---",) * len(head), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


PARTS: dict[str, Callable[[], str]] = {
    "state_diagram": state_diagram,
    "transition_table": transition_table,
    "decision_table": decision_table,
}


def drawn(page: str) -> str:
    """The page with all its drawn parts made anew. Raises ValueError when the parts of the page are not
    those of `PARTS`.
    """
    found = [match[2] for match in _PART.finditer(page)]
    if sorted(found) != sorted(PARTS):
        raise ValueError(f"the page has the drawn parts {found}, expected {list(PARTS)}, each once")
    return _PART.sub(lambda match: f"{match[1]}{PARTS[match[2]]()}\n{match[3]}", page)


def main(arguments: list[str] | None = None) -> int:
    """Write the page, or check it."""
    parser = argparse.ArgumentParser(prog="python -m tools.diagrams.draw", description="Draw docs/groups.md.")
    parser.add_argument("--check", action="store_true", help="write nothing; exit code 1 when the page is stale")
    options = parser.parse_args(arguments)
    before = PAGE.read_text(encoding="utf-8")
    after = drawn(before)
    if before == after:
        return 0
    if options.check:
        print(
            f"{PAGE.name} is stale: its tables are others in coordinator/groups now; run `make docs`", file=sys.stderr
        )
        return 1
    PAGE.write_text(after, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
