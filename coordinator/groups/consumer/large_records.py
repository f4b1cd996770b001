"""Records of members with thousands of topics.

Their bytes are made with a few instructions for each topic. Rows become messages only when they are read.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final, TypeVar

from muster.coordinator.groups.common.records import PackedRecord
from muster.coordinator.groups.consumer.assignments import Row
from muster.coordinator.state_machine import record_bytes
from muster.protocol.message import Message
from muster.protocol.records import OFFSETS
from muster.protocol.wire import put_many, uv

FEW_TOPICS: Final = 500
"""A record with at most this many topics is made as any other."""
NO_TAGS: Final = b"\0"
_EPOCHS_TAG: Final = b"\x01\0"
"""One tagged field follows: the first one, the epochs."""

M = TypeVar("M", bound=Message)


class LaterRows(Sequence[M]):
    """The rows of a message. Each row is made when it is read, by `make` from the values of a row."""

    __slots__ = ("_make", "_values")

    def __init__(self, make: Any, values: Sequence[Sequence[Any]]) -> None:
        self._make = make
        self._values = values

    def __len__(self) -> int:
        return len(self._values)

    def __getitem__(self, index: Any) -> Any:
        found = self._values[index]
        return LaterRows(self._make, found) if isinstance(index, slice) else self._make(*found)

    def __iter__(self) -> Iterator[M]:
        make = self._make
        return (make(*one) for one in self._values)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Sequence) and list(self) == list(other)

    __hash__ = None  # type: ignore[assignment]  # as of a list


def packed(key: Message, value: Message, parts: Iterable[bytes]) -> PackedRecord:
    """The record of a value of version 0 that consists of these parts."""
    record = PackedRecord(key, value, 0)
    record.row = record_bytes.pack_pair(OFFSETS.encode_key(key), b"".join((b"\0\0", *parts)))
    return record


def rows_with_epochs(held: Sequence[Row]) -> list[bytes]:
    """The bytes of an array of TopicPartitions of a ConsumerGroupCurrentMemberAssignmentValue."""
    ends: dict[tuple[Any, Any], bytes] = {}
    parts = [uv(len(held) + 1)]
    for topic_id, partitions, epochs in held:
        key = partitions, epochs
        end = ends.get(key)
        if end is None:
            end = ends[key] = b"".join((_numbers(partitions), _tagged(epochs)))
        parts += (topic_id, end)
    return parts


def rows_without_epochs(share: Sequence[tuple[bytes, tuple[int, ...]]]) -> list[bytes]:
    """The bytes of an array of TopicPartition of a ConsumerGroupTargetAssignmentMemberValue."""
    ends: dict[tuple[int, ...], bytes] = {}
    parts = [uv(len(share) + 1)]
    for topic_id, partitions in share:
        end = ends.get(partitions)
        if end is None:
            end = ends[partitions] = _numbers(partitions) + NO_TAGS
        parts += (topic_id, end)
    return parts


def _numbers(numbers: Sequence[int]) -> bytes:
    return uv(len(numbers) + 1) + put_many("i", len(numbers))(*numbers)


def _tagged(epochs: Sequence[int]) -> bytes:
    if not epochs:
        return NO_TAGS
    body = _numbers(epochs)
    return b"".join((_EPOCHS_TAG, uv(len(body)), body))
