"""Connections that a client opens again at once, each time that the server ends them without an answer."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from muster.clientlint.calls import Call, Certainty, Client, Connection
from muster.clientlint.watcher import Broken, Kept, Watcher, broken, seconds

SOON_MS: Final = 20
"""A connection that is opened within this time after the end of the last one follows it without a back-off."""
RECONNECTS: Final = 10


class _Row:
    """Connections of a client in a row that ended without an answer."""

    __slots__ = ("count", "first_ms", "newest")

    def __init__(self, newest: Connection) -> None:
        self.newest = newest
        self.count = 0
        self.first_ms = newest.opened_ms


class Reconnects(Watcher):
    """See the module. Processes that share a client's name may look like one, so that a finding says perhaps."""

    def __init__(self) -> None:
        self._rows: Kept[Client, _Row] = Kept()

    def asked(self, call: Call) -> Iterator[Broken]:
        """See `Watcher`."""
        row, now = self._rows.find(call.client), call.connection
        if row is None:
            self._rows.put(call.client, _Row(now))
            return
        before = row.newest
        if now is before:
            return
        row.newest = now
        is_failed = before.closed_ms is not None and before.answers == 0
        if not is_failed or now.opened_ms - (before.closed_ms or 0) > SOON_MS:
            row.count, row.first_ms = 0, now.opened_ms
            return
        row.count += 1
        if row.count == RECONNECTS:
            lasted_ms = now.opened_ms - row.first_ms
            words = f"{RECONNECTS} connections in {seconds(lasted_ms)} that each ended without an answer"
            yield broken("reconnect-without-backoff", call, words, Certainty.PERHAPS)
