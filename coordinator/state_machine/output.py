"""What one call of a core returns to its runtime."""

from __future__ import annotations

from typing import Any

from muster.coordinator.state_machine.interface import Record, Reply


class Output:
    """The result of one call. The package docstring says what the runtime does with an output."""

    __slots__ = ("events", "records", "replies")

    def __init__(
        self,
        replies: list[Reply] | None = None,
        records: list[Record] | None = None,
        events: list[Any] | None = None,
    ) -> None:
        """The lists belong to the output."""
        self.replies = replies or []
        self.records = records or []
        self.events = events or []
