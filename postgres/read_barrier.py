"""What a node has read in the database counts for it only when it is known to last.

A row that can be read need not last. A session may end while it waits for a synchronous standby. Then everybody sees
its rows, and the standby may never get them. What comes later in the order of the database lasts only if all before it
does. So whoever has read something writes a number to its own seat, over the same connection. When the database answers
that write, what was read lasts.

The number stays in the seat, and each turn of the node counts only where it is found. After a failover to a standby
that was behind, a node may know more than the database. Then it writes no more there, and finds out when it first asks.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from muster.postgres.store import NodeRegistration, Store, StoreAway

LOST = "others have taken this node for dead, or the database has lost what this node has read or written"


class ReadBarrier:
    """Of one node in one term. `number`: the last one that was answered; `turn`: the last turn that was."""

    def __init__(self, store: Store, seat: NodeRegistration, lost: Callable[[str], object] = lambda _: None) -> None:
        """`store`: the one that is read; `lost` is called when the node must give its seat up."""
        self._store = store
        self._seat = seat
        self.lost = lost
        self.number = seat.barrier
        self.turn = seat.turn
        self._sent = seat.barrier
        self._asked = 0
        """How often it was asked for, and how many of these wishes one of the numbers covers."""
        self._covered = 0
        self._session = -1
        self._one_at_a_time = asyncio.Lock()

    @property
    def session(self) -> int:
        """The connection that is read by now: take it before the first question, and give it to `passed`."""
        return self._store.session

    @property
    def is_new(self) -> bool:
        """Whether nothing was written over the present connection yet: what is at its other end may have lost
        something.
        """
        return self._store.session != self._session

    async def passed(self, session: int) -> bool:
        """Wait until all that was read since `session` was taken lasts. False: the connection is another one since,
        read it again. Raises StoreAway or StoreRefused.
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
