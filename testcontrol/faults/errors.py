"""The errors of a wrong rule or scenario."""

from __future__ import annotations

from muster.testcontrol.errors import WrongValue


class WrongFault(WrongValue):
    """A rule cannot be understood; the text says which part, and what was expected."""


class NoSuchFault(LookupError):
    """No rule or scenario has that id or name."""
