"""Functions for work outside the core, which an output has where other replies have `Respond` functions."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from muster.protocol.message import Message


class Helpers(NamedTuple):
    """The functions for work outside the core. Each gets a message; the core gets the result as a command."""

    compute: Callable[[Message], object]
    """Computes the target assignment of a consumer group, or the targets of a streams group."""
    search: Callable[[Message], object]
    """Finds the topics that regular expressions match."""
    later: Callable[[Message], object] | None = None
    """Gives the core an AnswersDue in the next iteration of the event loop. None: all members are answered at once."""
    read: Callable[[Message], object] | None = None
    """Reads a large classic group in a thread. None: the group is read directly."""
    change_states: Callable[[Message], object] | None = None
    """Creates or deletes states of share partitions. None means that no states are kept; each change succeeds."""
