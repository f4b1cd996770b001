"""What is wrong with a rule or a scenario that was asked for."""

from __future__ import annotations

from muster.testcontrol.errors import WrongValue


class WrongFault(WrongValue):
    """It cannot be understood; the text says which part, and what was expected."""


class NoSuchFault(LookupError):
    """There is no rule or scenario of that id or name."""
