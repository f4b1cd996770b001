"""A node uses what it has read in the database only when that is known to be durable.

A row that can be read need not be durable. A database session may end while it waits for a synchronous standby. Then
all readers see its rows, and the standby may never get them. A later write is durable only if all writes before it are.
So a node that has read something writes a number to its own registration, over the same connection. When the database
answers that write, the rows that were read are durable.

The number stays in the registration, and each database write of the node counts only where the number is found. After a
failover to a standby that was behind, a node may know more than the database. Then it writes no more there. Its first
request shows it that.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from muster.postgres.store import NodeRegistration, Store, StoreAway

LOST = "others have taken this node for dead, or the database has lost what this node has read or written"


class ReadBarrier:
    """The read barrier of one node session. `number`: the last one that was answered; `turn`: the last answered
    database write.
    """

    def __init__(self, store: Store, seat: NodeRegistration, lost: Callable[[str], object] = lambda _: None) -> None:
        """`store`: the one that is read; `lost` is called when the node must give up its registration."""
        self._store = store
        self._seat = seat
        self.lost = lost
        self.number = seat.barrier
        self.turn = seat.turn
        self._sent = seat.barrier
        self._asked = 0
        """How many calls of `passed` were made; `_covered`: how many of them a written number covers."""
        self._covered = 0
        self._session = -1
        self._one_at_a_time = asyncio.Lock()

    @property
    def session(self) -> int:
        """The present connection for reads: take it before the first request, and give it to `passed`."""
        return self._store.session

    @property
    def is_new(self) -> bool:
        """Whether no number was written over the present connection yet: its server may have lost something."""
        return self._store.session != self._session

    async def passed(self, session: int) -> bool:
        """Wait until all that was read since `session` was taken is durable. False: the connection is another one
        since, so read again. Raises StoreAway or StoreRefused.
        """
        self._asked += 1
        wish = self._asked
        async with self._one_at_a_time:
            if self._covered < wish and self._store.session == session:
                wishes = self._asked
                self._sent += 1
                number = self._sent
                if not await self._store.barrier(
                    self._seat.node_id, self._seat.epoch, number, after=self.number, turn=self.turn
                ):
                    self.lost(LOST)
                    raise StoreAway(LOST)
                self.number, self._session = number, session
                if self._store.session == session:
                    self._covered = wishes
            return self._store.session == session
