"""The memory of requests (queued.max.request.bytes): which connections may send more, and which end.

Only received bytes count, so that nobody waits for bytes that another client has not sent. The bytes of a request count
until it is decoded; then `api.decoded_requests` counts the request. `api.unsent` limits answers.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator
from itertools import count, islice
from typing import Final, Protocol

from muster.coordinator.net.connection_core import ConnectionCore
from muster.coordinator.net.sockets import network_of
from muster.coordinator.system.clock import Clock, Timer
from muster.coordinator.system.memory import expect_block

FINISHING_PART: Final = 4
"""A quarter of the memory is for requests beyond their share. One such request may have a quarter of that quarter."""
MAX_OVER: Final = 256 << 20
"""By how many bytes connections that do not wait yet may exceed the memory. Beyond this limit, connections end."""
CHECK_EVERY_MS: Final = 1_000
STALLED_MS: Final = 5_000
STALLED_BYTES: Final = 64 * 1024
"""While other connections wait, a connection ends if it has sent fewer bytes of its request in `STALLED_MS`."""
PATIENCE_MS: Final = 5_000
BYTES_PER_MS: Final = 1_000
"""While others wait, a request that is being finished gets `PATIENCE_MS`, and a millisecond for each 1,000 bytes."""
BEHIND_MS: Final = 30_000
"""How long a request may wait behind another request of its connection, while whole requests fill the memory."""
VOID_ENTRIES: Final = 16
"""The heap of an address has at most this many void entries more than valid entries."""
AT_ONCE: Final = 100
"""The most connections that continue or end in one iteration of the event loop."""


class Holder(Protocol):
    """A connection that waits with large requests, or with many small requests (`ConnectionCore.bytes_to_count`)."""

    core: ConnectionCore
    host: str

    def memory_granted(self) -> None:
        """Let the connection continue reading."""

    def close_stalled(self) -> None:
        """End the connection: others wait for its memory."""


class _Address:
    """The connections of one address that have large requests. A whole IPv6 network counts as one address."""

    __slots__ = ("accounts", "held", "name", "number_waiting", "waiting")

    def __init__(self, name: str) -> None:
        self.name = name
        self.held = 0
        self.accounts: dict[_Account, None] = {}
        self.number_waiting = 0
        self.waiting: list[tuple[int, int, _Account]] = []
        """A heap of (missing bytes, number, account). An entry is void if its number is not the account's number."""


class _Account:
    """The bytes of one connection: `whole` requests, and `received` and `missing` bytes of its next request.

    `number`: the number of its entry among the waiting accounts; 0: the account does not wait. `deadline_ms`: when its
    request must be finished; 0: no deadline. `moved`: how many bytes have arrived or were freed since `since_ms`.
    """

    __slots__ = ("address", "deadline_ms", "holder", "missing", "moved", "number", "received", "since_ms", "whole")

    def __init__(self, holder: Holder, address: _Address, now_ms: int) -> None:
        self.holder = holder
        self.address = address
        self.whole = self.received = self.missing = 0
        self.number = self.deadline_ms = self.moved = 0
        self.since_ms = now_ms


class RequestMemory:
    """Which connections may read more of a large request.

    A connection may have as many bytes as are left, and its address twice as many. So a new client always finds memory.
    A request beyond its share waits. The request that has waited longest is always finished, and so are requests with
    few missing bytes. While others wait, a connection that does not send the missing bytes in time ends.
    """

    def __init__(self, clock: Clock, max_bytes: int) -> None:
        self._clock = clock
        self._max = max_bytes
        self._max_finishing = max_bytes // FINISHING_PART
        self._held = self._whole = 0
        self._oldest: _Account | None = None
        """The account that has waited longest. The request of this account is being finished."""
        self._missing = 0
        """The missing bytes of all requests that are being finished, without the oldest request."""
        self._accounts: dict[Holder, _Account] = {}
        self._addresses: dict[str, _Address] = {}
        self._waiting: dict[_Account, None] = {}
        """Waiting accounts, in the order in which they began to wait."""
        self._queue: dict[_Address, None] = {}
        """Addresses with waiting connections. The address that was served last is at the end."""
        self._refused = 0
        """How many addresses at the end of the queue were tried and cannot continue."""
        self._numbers = count(1)
        self._timer: Timer | None = None
        self._serves_soon = False

    @property
    def left(self) -> int:
        """The remaining bytes; negative when the memory is exceeded."""
        return self._max - self._held

    def charge(self, holder: Holder, whole: int, received: int, missing: int) -> bool:
        """Set the present bytes of `holder`. Returns whether `holder` may read on; if not, `memory_granted` follows."""
        account = self._accounts.get(holder)
        if account is None:
            if not whole + received:
                return True
            expect_block(received + missing)
            account = self._open(holder)
        change = self._set(account, whole, received, missing)
        if not whole + received:
            self._close(account)
        if change < 0:
            self._serve_soon()
        if not missing:
            return True
        if account.deadline_ms or self._has_share(account):
            self._stop_waiting(account)
            return True
        if self._held > self._max + MAX_OVER:
            self._end_largest()
        if holder not in self._accounts or (not account.number and self._may_continue(account)):
            return True
        if not account.number:
            self._wait(account)
        return False

    def leave(self, holder: Holder) -> None:
        """Note that the connection has ended. The call has no effect if the connection has no bytes."""
        account = self._accounts.get(holder)
        if account is not None:
            self._close(account)
            self._serve_soon()

    def stop(self) -> None:
        """Stop all timers."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    # ---- accounts

    def _open(self, holder: Holder) -> _Account:
        name = network_of(holder.host)
        address = self._addresses.get(name)
        if address is None:
            address = self._addresses[name] = _Address(name)
        account = self._accounts[holder] = _Account(holder, address, self._clock.mono_ms())
        address.accounts[account] = None
        return account

    def _set(self, account: _Account, whole: int, received: int, missing: int) -> int:
        """Set the bytes of an account. Returns the change of the counted bytes."""
        if not missing or missing > account.missing:  # the account's request is finished, or another request has begun
            self._stop_waiting(account)
            self._stop_finishing(account)
        change = whole + received - account.whole - account.received
        self._held += change
        account.address.held += change
        self._whole += whole - account.whole
        account.moved += abs(change)
        if account.deadline_ms and account is not self._oldest:
            self._missing += missing - account.missing
        account.whole, account.received, account.missing = whole, received, missing
        return change

    def _close(self, account: _Account) -> None:
        self._set(account, 0, 0, 0)
        address = account.address
        del self._accounts[account.holder]
        del address.accounts[account]
        if not address.accounts:
            address.waiting.clear()
            del self._addresses[address.name]
            self._queue.pop(address, None)

    def _has_share(self, account: _Account) -> bool:
        left = self._max - self._held - self._max_finishing
        if self._oldest is not None:
            left += self._oldest.received  # the oldest request may exceed the memory
        return account.whole + account.received <= left and account.address.held <= 2 * left

    # ---- waiting requests, and those that are being finished

    def _wait(self, account: _Account) -> None:
        account.number = next(self._numbers)
        self._waiting[account] = None
        address = account.address
        address.number_waiting += 1
        heapq.heappush(address.waiting, (account.missing, account.number, account))
        self._queue.setdefault(address)
        if self._timer is None:
            self._arm(CHECK_EVERY_MS)

    def _stop_waiting(self, account: _Account) -> None:
        if account.number:
            account.number = 0
            del self._waiting[account]
            address = account.address
            address.number_waiting -= 1
            if len(address.waiting) > VOID_ENTRIES + 2 * address.number_waiting:
                address.waiting = [entry for entry in address.waiting if entry[2].number == entry[1]]
                heapq.heapify(address.waiting)

    def _may_continue(self, account: _Account) -> bool:
        # a connection that waits for something else asks again when it may read
        if account.holder.core.reads_on and not self._has_share(account):
            if self._whole > self._max:
                return False  # whole requests release their memory by themselves
            if self._is_small(account):
                self._missing += account.missing
            elif self._oldest is None and account is next(iter(self._waiting), account):
                self._oldest = account
            else:
                return False
            account.deadline_ms = self._clock.mono_ms() + PATIENCE_MS + account.missing // BYTES_PER_MS
        self._stop_waiting(account)
        account.moved, account.since_ms = 0, self._clock.mono_ms()
        return True

    def _is_small(self, account: _Account) -> bool:
        limit = self._max_finishing
        return account.missing <= limit // FINISHING_PART and self._missing + account.missing <= limit

    def _stop_finishing(self, account: _Account) -> None:
        if account.deadline_ms:
            account.deadline_ms = 0
            if account is self._oldest:
                self._oldest = None
            else:
                self._missing -= account.missing
            self._serve_soon()

    def _serve_soon(self) -> None:
        self._refused = 0
        if self._queue and not self._serves_soon:
            self._serves_soon = True
            self._clock.call_soon(self._serve)

    def _serve(self) -> None:
        """Let connections continue: the oldest first, then address by address, until none of them can continue."""
        self._serves_soon = False
        if self._oldest is None and self._waiting:
            self._try(next(iter(self._waiting)))
        for _ in range(AT_ONCE):
            if self._refused >= len(self._queue):
                return
            address = next(iter(self._queue))
            del self._queue[address]
            account = _next_of(address)
            if account is not None:
                self._queue[address] = None  # the address goes behind the other addresses
                self._refused = 0 if self._try(account) else self._refused + 1
        self._serves_soon = True
        self._clock.call_soon(self._serve)

    def _try(self, account: _Account) -> bool:
        continues = self._may_continue(account)
        if continues:
            account.holder.memory_granted()
        return continues

    # ---- connections that do not continue

    def _arm(self, in_ms: int) -> None:
        self._timer = self._clock.call_at(self._clock.mono_ms() + in_ms, self._check)

    def _check(self) -> None:
        self._timer = None
        if not self._waiting:
            return
        late = [*islice(self._late(self._clock.mono_ms()), AT_ONCE)]
        for account in late:
            self._end(account)
        self._serve_soon()
        self._arm(CHECK_EVERY_MS // 10 if len(late) == AT_ONCE else CHECK_EVERY_MS)

    def _late(self, now_ms: int) -> Iterator[_Account]:
        for account in self._accounts.values():
            core, silent_ms = account.holder.core, now_ms - account.since_ms
            if not account.missing:
                if account.moved or core.is_decoding:
                    account.moved, account.since_ms = 0, now_ms
                elif silent_ms >= BEHIND_MS and self._whole > self._max:
                    yield account
            elif account.number or not core.reads_on:
                # the node does not read, so the client is not at fault
                account.moved, account.since_ms = 0, now_ms
                self._stop_finishing(account)
            elif 0 < account.deadline_ms <= now_ms:
                yield account
            elif silent_ms >= STALLED_MS:
                if account.moved < STALLED_BYTES:
                    yield account
                account.moved, account.since_ms = 0, now_ms

    def _end(self, account: _Account) -> None:
        holder = account.holder
        self._close(account)
        holder.close_stalled()

    def _end_largest(self) -> None:
        address = max(self._addresses.values(), key=lambda one: one.held)
        some = islice(address.accounts, AT_ONCE)
        self._end(max(some, key=lambda one: (one.missing > 0, not one.deadline_ms, one.missing)))


def _next_of(address: _Address) -> _Account | None:
    """The waiting connection of the address with the fewest missing bytes."""
    waiting = address.waiting
    while waiting:
        _, number, account = waiting[0]
        if account.number == number:
            return account
        heapq.heappop(waiting)
    return None
