"""What a request that cannot be answered does to its connection."""

from __future__ import annotations


class CloseConnection(Exception):
    """The connection cannot go on; `reason` is for its one log line, `facts` what else is known (api, version …)."""

    def __init__(self, reason: str, **facts: object) -> None:
        super().__init__(reason)
        self.reason = reason
        self.facts = facts
