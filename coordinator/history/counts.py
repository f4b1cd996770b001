"""Counts of one second, so that clients cannot fill a disk: refused requests, and ended transactions of groups.

One event for each cause and client counts refused requests. One event for each group, producer and outcome counts
transactions: a busy producer ends a hundred transactions a second.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from json.encoder import encode_basestring as quote
from typing import Any, Final

from muster.coordinator.groups.common import events
from muster.coordinator.groups.common.events import Event
from muster.coordinator.history.event_writer import record_key

SECOND_MS: Final = 1_000
MAX_KINDS: Final = 100
"""Different refusals of one second that get an event each. Further ones are counted together, without names."""

MAX_BYTES: Final = 16 * 1024
"""Bytes of all their names, as JSON."""
LONGEST: Final = 249
"""Characters of a name (the longest name of a topic). A longer name is cut and ends with CUT."""
CUT: Final = "…"

FACTS: Final = ("api", "error_code", "client_id", "host", "instance", "count")
"""The facts in an event of a group, in this order."""
Facts = dict[str, Any]


class RefusalCounts:
    """The refusals of the present second."""

    __slots__ = ("_bytes_left", "_counts", "_facts", "_others", "began_ms")

    def __init__(self, facts: Sequence[str] = FACTS) -> None:
        """`facts`: the names of the arguments of `count`, then "count"."""
        self._facts = facts
        self._bytes_left = MAX_BYTES
        self._counts: dict[tuple[str | int | None, ...], list[int]] = {}
        self._others = [0, 0]
        """The number of further refusals, and the time of the first. Each value of `_counts` has the same form."""
        self.began_ms: int | None = None
        """The time of the first refusal (wall ms). None before the first."""

    def add(self, event: Event, wall_ms: int) -> None:
        """Count a REQUEST_REFUSED of a group."""
        facts: Facts = event.facts
        counted = facts["api"], facts["error"], facts["client_id"], facts["host"], facts["instance"]
        self.count(event.group_id, counted, wall_ms)

    def count(self, name: str, facts: Sequence[str | int | None], wall_ms: int) -> None:
        """Count one event `name` with these facts."""
        if self.began_ms is None:
            self.began_ms = wall_ms
        kind = (cut(name), *(cut(one) if isinstance(one, str) else one for one in facts))
        counted = self._counts.get(kind)
        if counted is not None:
            counted[0] += 1
            return
        size = sum(len(quote(one).encode("utf-8", "surrogatepass")) for one in kind if isinstance(one, str))
        if len(self._counts) < MAX_KINDS and size <= self._bytes_left:
            self._counts[kind] = [1, wall_ms]
            self._bytes_left -= size
        else:
            others, first_ms = self._others
            self._others = [others + 1, first_ms if others else wall_ms]

    def take(self) -> Iterator[tuple[str | None, int, Facts]]:
        """Reset all counts. Yields the name, the time of its first refusal (wall ms) and the facts of each event to
        write.
        """
        counts, (others, others_ms) = self._counts, self._others
        self._counts, self._others, self._bytes_left, self.began_ms = {}, [0, 0], MAX_BYTES, None
        for (name, *facts), (count, first_ms) in counts.items():
            assert isinstance(name, str)
            yield name, first_ms, dict(zip(self._facts, (*facts, count), strict=True))
        if others:
            yield None, others_ms, dict.fromkeys(self._facts) | {"count": others}


def cut(name: str) -> str:
    """A name, or the beginning of a long one."""
    return name if len(name) <= LONGEST else name[:LONGEST] + CUT


def is_cut(name: str) -> bool:
    """Whether the name was cut to its beginning."""
    return len(name) > LONGEST


def key_of(name: str | None) -> bytes | None:
    """The key of an event from `take`. None for an event of several names, or with a name that was cut."""
    return None if name is None or is_cut(name) else record_key(name)


COMMITTED: Final = "transactions_committed"
"""producer_id, first_epoch, last_epoch, transactions (how many), offsets (how many in total): of one second."""
ABORTED: Final = "transactions_aborted"
"""As COMMITTED; none of these offsets ever counts."""
COUNTED_ENDS: Final = {events.TRANSACTION_COMMITTED: COMMITTED, events.TRANSACTION_ABORTED: ABORTED}
"""The kinds that are counted, and the kind of the event with the count."""
MAX_TRANSACTION_COUNTS: Final = 500
"""When there are this many different counts, they are written at once."""


class TransactionCounts:
    """The ends of the present second."""

    __slots__ = ("_counts", "began_ms")

    def __init__(self) -> None:
        self._counts: dict[tuple[str, str, int], list[int]] = {}
        self.began_ms: int | None = None
        """The time of the first end (wall ms). None before the first."""

    def add(self, event: Event, wall_ms: int) -> None:
        """Count a TRANSACTION_COMMITTED or TRANSACTION_ABORTED."""
        if self.began_ms is None:
            self.began_ms = wall_ms
        facts: dict[str, Any] = event.facts
        epoch = facts["producer_epoch"]
        kind = event.kind, event.group_id, facts["producer_id"]
        counted = self._counts.setdefault(kind, [epoch, epoch, 0, 0, wall_ms])
        counted[1] = epoch
        counted[2] += 1
        counted[3] += sum(map(len, facts["offsets"].values()))

    @property
    def is_full(self) -> bool:
        """Whether the number of kept counts has reached its limit."""
        return len(self._counts) >= MAX_TRANSACTION_COUNTS

    def take(self) -> Iterator[tuple[str, str, int, dict[str, int]]]:
        """Reset all counts. Yields kind, group, the time of the first end (wall ms) and the facts of each event to
        write.
        """
        counts, self._counts, self.began_ms = self._counts, {}, None
        for (kind, group_id, producer_id), (first, last, transactions, offsets, first_ms) in counts.items():
            facts = {
                "producer_id": producer_id, "first_epoch": first, "last_epoch": last, "transactions": transactions,
                "offsets": offsets,
            }  # fmt: skip
            yield COUNTED_ENDS[kind], group_id, first_ms, facts
