"""What the transaction core reports for the history: kinds of events, their facts, and causes.

Each transaction has one BEGUN, any number of PARTITIONS_ADDED, and one ENDING (cause). A transaction has one COMMITTED
or ABORTED, when each partition has its marker. After a restart ENDING is not reported again. Kinds and causes are words
of the schema in `docs/events.md`: they are never renamed. The docstring of each kind names its facts. Times are wall
ms. "topics" are partitions by topic, with those of `__consumer_offsets`.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final, NamedTuple

from muster.coordinator.state_machine.interface import Client
from muster.protocol.message import Message


class Event(NamedTuple):
    """An event of a transactional id, with the producer of the transaction or of the refused request."""

    kind: str
    transactional_id: str
    producer_id: int
    producer_epoch: int
    facts: dict[str, object]


# ---- kinds

INITIALIZED: Final = "producer_initialized"
"""cause (NEW_ID, NEW_PRODUCER, SAME_PRODUCER), timeout_ms, client_id, host.

fenced_producer_id and fenced_producer_epoch: of the previous producer, which is fenced now; -1 without one.
"""
BEGUN: Final = "transaction_begun"
"""start_ms, timeout_ms, client_id, host. PARTITIONS_ADDED of the first partitions follows."""
PARTITIONS_ADDED: Final = "partitions_added"
"""topics (only the new ones), start_ms, partitions (how many the transaction has now)."""
ENDING: Final = "transaction_ending"
"""The end of a transaction is decided. The event's epoch is the epoch of the transaction's records.

* is_committed, cause (BY_CLIENT, TIMED_OUT, NEW_PRODUCER), start_ms, open_ms, partitions (how many).
* version: Kafka's transaction version, 0 or 2. client_id and host: "" when no client requested the end.
"""
COMMITTED: Final = "transaction_committed"
"""cause (as in ENDING; None if ENDING was before a restart), start_ms, took_ms, markers_ms (since ENDING), topics.

version, next_producer_id and next_producer_epoch (of the next transaction).
"""
ABORTED: Final = "transaction_aborted"
"""The facts are those of COMMITTED."""
FENCED: Final = "producer_fenced"
"""A request of a producer was refused: a newer producer has the id, or the producer's transaction timed out.

api, error (Kafka's code), client_id, host, current_producer_id, current_producer_epoch.
"""
EXPIRED: Final = "transactional_id_expired"
"""idle_ms (since its last change), state (Empty, CompleteCommit or CompleteAbort)."""
REQUEST_REFUSED: Final = "request_refused"
"""Any other error but CONCURRENT_TRANSACTIONS ("try again"): api, error, client_id, host."""

KINDS: Final = (INITIALIZED, BEGUN, PARTITIONS_ADDED, ENDING, COMMITTED, ABORTED, FENCED, EXPIRED, REQUEST_REFUSED)

# ---- causes
NEW_ID: Final = "new_id"
NEW_PRODUCER: Final = "new_producer"
SAME_PRODUCER: Final = "same_producer"
BY_CLIENT: Final = "client"
TIMED_OUT: Final = "timeout"

WORDS: Final[Mapping[str, str]] = MappingProxyType(
    {
        NEW_ID: "the transactional id is new",
        NEW_PRODUCER: "another producer took the transactional id over",
        SAME_PRODUCER: "the producer asked for a new epoch after an error",
        BY_CLIENT: "its producer asked for it",
        TIMED_OUT: "it was open for longer than its timeout",
    }
)
"""Each cause in plain words."""


def refused(
    kind: str,
    request: Message,
    client: Client,
    transactional_id: str,
    producer_id: int,
    producer_epoch: int,
    error: int,
    **facts: object,
) -> Event:
    """The event of a refused request: FENCED with its `facts`, or REQUEST_REFUSED."""
    facts["api"] = getattr(request, "api", None) or type(request).__name__.removesuffix("Request")
    facts["error"] = error
    facts["client_id"] = client.client_id
    facts["host"] = client.host
    return Event(kind, transactional_id, producer_id, producer_epoch, facts)
