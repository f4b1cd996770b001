"""Closing a connection because of a request that cannot be answered."""

from __future__ import annotations


class CloseConnection(Exception):
    """The connection has to be closed. `reason` is for the one log line; `facts` are further fields of that line (api,
    version …).
    """

    def __init__(self, reason: str, **facts: object) -> None:
        super().__init__(reason)
        self.reason = reason
        self.facts = facts
