"""The values that pass between the core and its runtime: the time, commands, records and replies."""

from __future__ import annotations

from collections.abc import Callable, Container, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from muster.protocol.message import Message


class Now(NamedTuple):
    """The present time, as the runtime has read it."""

    mono_ms: int
    """Monotonic milliseconds, for deadlines."""
    wall_ms: int
    """Milliseconds since 1970, for record timestamps, retention and expiry."""


Respond = Callable[[Message], object]
"""A function that takes a response. The core never calls this function: an `Output` has it beside the response."""
Reply = tuple[Respond, Message]
"""A response in the newest version of its message, and the function that takes it."""


@dataclass(slots=True, eq=False, repr=False)
class Client:
    """The client of one connection, as groups know it (Kafka's clientId and clientHost)."""

    client_id: str
    """The client id in the request header; "" for null."""
    host: str
    """"/" and the client's address without a port."""
    seen: Callable[[Sequence[str]], Container[str]] | None = None
    """A function that returns which of these topics the client may see; None: the client may see all topics."""


@dataclass(slots=True, eq=False, repr=False)
class Command:
    """One request for the core, in the newest version of its message, and the function that takes the response."""

    request: Message
    respond: Respond
    client: Client


class IllegalTransition(RuntimeError):
    """A program error: `event` cannot happen to `subject` in `state`. Nothing has changed."""

    def __init__(self, subject: str, state: str, event: str) -> None:
        super().__init__(f"{subject} is {state}: {event!r} cannot happen")
        self.state = state
        self.event = event


class Record(NamedTuple):
    """One record for the log: messages of `muster.protocol`, not bytes. A value of None is a tombstone."""

    key: Message
    value: Message | None
    value_version: int
    """The version in which Kafka 4.4 writes this value; 0 for a tombstone."""


Decoded = tuple[Message, Message | None]
"""Key and value of a record that was read. A value of None is a tombstone."""


HEADER: Final = 61
"""How many bytes of a batch precede its records."""
NO_LIMIT: Final = 2**63 - 1


class Producer(NamedTuple):
    """The producer that writes records of a transaction."""

    producer_id: int
    producer_epoch: int


class TransactionalBatch(NamedTuple):
    """Records of an open transaction. The records count once the transaction is committed."""

    producer_id: int
    producer_epoch: int
    timestamp_ms: int
    """Wall time of the newest record."""
    records: Sequence[Decoded]


class EndTransaction(NamedTuple):
    """The end of a producer's open transaction, as the marker in the log names it."""

    producer_id: int
    producer_epoch: int
    is_committed: bool
    """False: the transaction is aborted."""
