"""Questions about the state of a share partition, their answers, and the interface `Persister` that takes questions.

The state of a share partition survives restarts and moves of its leader. A share group's coordinator creates and
deletes the state; the leader of the topic partition reads and writes it. The errors are those of Kafka's APIs 83 to 87.
"""

from __future__ import annotations

import re
from base64 import b64decode, urlsafe_b64encode
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple, Protocol

from muster.coordinator.share.in_flight import Row
from muster.protocol.message import ZERO_UUID, Message

UNKNOWN: Final = -1
"""The start offset, and the count of done records, while the partition's leader has not chosen the start offset."""


class StateKey(NamedTuple):
    """A share partition: the topic partition, as one share group sees it. Its text decides who coordinates it."""

    group_id: str
    topic_id: bytes
    partition: int

    def __str__(self) -> str:
        return f"{self.group_id}:{urlsafe_b64encode(self.topic_id).rstrip(b'=').decode()}:{self.partition}"


def read_key(text: str) -> StateKey | None:
    """The share partition of a key of FindCoordinator; None if Kafka would not accept the text."""
    *group, topic, partition = (":" + text.rstrip(":")).split(":")
    group_id = ":".join(group)[1:]
    if not group_id.strip(_TRIMMED) or not _PARTITION.fullmatch(partition) or len(topic) > _UUID_LENGTH:
        return None
    try:
        topic_id = b64decode(topic + "=" * (-len(topic) % 4), altchars=b"-_", validate=True)
    except ValueError:
        return None
    number = int(partition)
    return StateKey(group_id, topic_id, number) if len(topic_id) == len(ZERO_UUID) and number < 1 << 31 else None


_TRIMMED: Final = "".join(map(chr, range(33)))
_PARTITION: Final = re.compile(r"[+-]?[0-9]{1,10}")
_UUID_LENGTH: Final = 24


@dataclass(slots=True)
class StateRequest(Message):
    """A question about one share partition."""

    key: StateKey


@dataclass(slots=True)
class InitializeState(StateRequest):
    """Create the state, or replace it (Kafka: 83). A state of a newer state epoch is not replaced."""

    state_epoch: int
    start_offset: int
    """The first offset for the group; UNKNOWN: the leader of the partition is to choose it."""


@dataclass(slots=True)
class ReadState(StateRequest):
    """Read the state for a new leader of the partition (Kafka: 84). From then on older leaders cannot write."""

    leader_epoch: int


@dataclass(slots=True)
class WriteState(StateRequest):
    """Merge changes into the state (Kafka: 85)."""

    state_epoch: int
    leader_epoch: int
    start_offset: int
    """The new start offset, or UNKNOWN: it stays as it is."""
    done_count: int
    """How many records from the start offset on need no more deliveries (Kafka: deliveryCompleteCount)."""
    rows: Sequence[Row]
    """Records with new delivery states."""


@dataclass(slots=True)
class DeleteState(StateRequest):
    """Delete the state (Kafka: 86). A state that does not exist is no error."""


@dataclass(slots=True)
class ReadSummary(StateRequest):
    """Read the state without its rows, and without a new leader (Kafka: 87)."""


@dataclass(slots=True)
class StateResponse(Message):
    """The answer to `InitializeState`, `WriteState` and `DeleteState`: the change is durable if there is no error."""

    error_code: int = 0
    error_message: str | None = None
    """None if there is no error."""


@dataclass(slots=True)
class LoadedState(StateResponse):
    """The answer to `ReadState`."""

    state_epoch: int = 0
    start_offset: int = 0
    """UNKNOWN: the leader of the partition is to choose it."""
    rows: Sequence[Row] = ()
    """Records with a delivery state, in the order of their offsets."""


@dataclass(slots=True)
class Summary(StateResponse):
    """The answer to `ReadSummary`. A state that does not exist is no error: then the start offset is UNKNOWN."""

    state_epoch: int = 0
    leader_epoch: int = 0
    start_offset: int = UNKNOWN
    done_count: int = UNKNOWN


class Persister(Protocol):
    """Keeps the states of share partitions, on whichever node coordinates them.

    Each method gives `respond` one answer, perhaps within the call. While the coordinator moves or loads, the question
    is asked again. If that does not help, the answer has an error of the coordinator, such as NOT_COORDINATOR. Then
    nobody knows whether a change has happened. A question may be executed twice.
    """

    def initialize(self, request: InitializeState, respond: Callable[[StateResponse], object]) -> None:
        """Create or replace a state. Errors: FENCED_STATE_EPOCH, UNKNOWN_TOPIC_OR_PARTITION."""

    def read(self, request: ReadState, respond: Callable[[LoadedState], object]) -> None:
        """Read a state. Errors: FENCED_LEADER_EPOCH, UNKNOWN_TOPIC_OR_PARTITION; without a state INVALID_REQUEST."""

    def write(self, request: WriteState, respond: Callable[[StateResponse], object]) -> None:
        """Change a state. Errors: those of `read`, and FENCED_STATE_EPOCH."""

    def delete(self, request: DeleteState, respond: Callable[[StateResponse], object]) -> None:
        """Delete a state. Error: UNKNOWN_TOPIC_OR_PARTITION."""

    def read_summary(self, request: ReadSummary, respond: Callable[[Summary], object]) -> None:
        """Read a summary. Error: UNKNOWN_TOPIC_OR_PARTITION."""
