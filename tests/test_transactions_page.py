"""docs/dev/transactions.md names what decides in the transaction core."""

from __future__ import annotations

import re
from pathlib import Path

from muster.coordinator.transactions.end_txn import ABORT, COMMIT, NEW_CLIENT, OLD_CLIENT
from muster.coordinator.transactions.transaction import TRANSITIONS
from tools.diagrams import draw, transactions

CORE = Path(__file__).resolve().parents[1] / "coordinator" / "transactions"


def rows(table: str) -> list[list[str]]:
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in table.splitlines()]


def test_the_diagram_of_transaction_states_has_each_transition() -> None:
    arrows = [line for line in transactions.state_diagram().splitlines() if "-->" in line and "[*]" not in line]
    assert sorted(arrows) == sorted(f"    {state} --> {after}: {what}" for (state, what), after in TRANSITIONS.items())


def test_the_table_of_transaction_ends_has_each_cell() -> None:
    head, _, *ends = rows(transactions.end_table())
    states = head[1:]
    assert [row[1:] for row in ends] == [
        *([OLD_CLIENT[state, end] for state in states] for end in (COMMIT, ABORT)),
        *([NEW_CLIENT[state, end, False] for state in states] for end in (COMMIT, ABORT)),
        *([NEW_CLIENT.get((state, end, True), "-") for state in states] for end in (COMMIT, ABORT)),
    ]


def test_the_transactions_page_names_each_module_that_decides() -> None:
    page = (draw.DOCS / "dev" / "transactions.md").read_text(encoding="utf-8")
    named = set(re.findall(r"`(?:coordinator/transactions/)?(\w+\.py)`", page))
    there = {path.name for path in CORE.glob("*.py")}
    assert there - named == {"__init__.py", "commands.py"}
