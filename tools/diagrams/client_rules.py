"""Draws the table of the rules for clients in docs/client-lint.md."""

from __future__ import annotations

from typing import Final

from muster.clientlint.rules import RULES
from tools.diagrams.pages import Parts


def table() -> str:
    """The table, with a row for each rule."""
    rows = (f"| `{rule.id}` | {rule.harm} | {rule.wrong} | {rule.do} |" for rule in RULES.values())
    return "\n".join(["| rule | harm | what is wrong | what to do |", "|---|---|---|---|", *rows])


ON_SITE: Final[Parts] = {"rules": table}
