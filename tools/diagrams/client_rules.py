"""Draws the tables of docs/client-lint.md: the rules for clients, and the moments of the rehearsal."""

from __future__ import annotations

from typing import Final

from muster.clientlint.moments import MOMENTS
from muster.clientlint.rules import RULES
from tools.diagrams.pages import Parts


def table() -> str:
    """The table of rules."""
    rows = (f"| `{rule.id}` | {rule.harm} | {rule.wrong} | {rule.do} |" for rule in RULES.values())
    return "\n".join(["| rule | harm | what is wrong | what to do |", "|---|---|---|---|", *rows])


def moments() -> str:
    """The table of moments, in the order in which they are played."""
    rows = (f"| `{moment.name}` | {moment.about} |" for moment in MOMENTS.values())
    return "\n".join(["| moment | what happens |", "|---|---|", *rows])


ON_SITE: Final[Parts] = {"rules": table, "moments": moments}
