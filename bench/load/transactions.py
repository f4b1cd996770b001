"""Makes the frames of transactions before they are sent. That is possible because the content of each answer is known.

With transaction version 2, each end of a transaction raises the producer's epoch by one. Sequence numbers then begin
again at 0. With versions 0 and 1, the epoch stays and sequence numbers continue.
"""

from __future__ import annotations

import socket
import struct
import time
from collections.abc import Iterator, Sequence
from typing import Any, Final, NamedTuple

from aiokafka.record.default_records import DefaultRecordBatchBuilder

from muster.protocol import frames
from muster.protocol.api import api_named
from muster.protocol.errors import ErrorCode, error_name
from muster.protocol.message import Message
from muster.protocol.messages.add_offsets_to_txn import AddOffsetsToTxnRequest, AddOffsetsToTxnResponse
from muster.protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnPartitionResult,
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTopicResult,
)
from muster.protocol.messages.end_txn import EndTxnRequest, EndTxnResponse
from muster.protocol.messages.find_coordinator import FindCoordinatorRequest
from muster.protocol.messages.init_producer_id import InitProducerIdRequest
from muster.protocol.messages.produce import (
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
    TopicProduceResponse,
)
from muster.protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
    TxnOffsetCommitResponse,
    TxnOffsetCommitResponsePartition,
    TxnOffsetCommitResponseTopic,
)
from tests.support import wire

RECORDS: Final = 10
VALUE: Final = bytes(range(100))
TIMEOUT_MS: Final = 900_000
"""This timeout is long enough that an open transaction of one load is not aborted during the next load."""
TRANSACTION: Final = 1
"""The key type of transactional ids in FindCoordinator."""
NOT_YET: Final = (
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_COORDINATOR,
    ErrorCode.CONCURRENT_TRANSACTIONS,
)
VERSION_1: Final = {"Produce": 10, "AddPartitionsToTxn": 3, "AddOffsetsToTxn": 3, "TxnOffsetCommit": 3, "EndTxn": 3}
VERSION_2: Final = {"Produce": 12, "TxnOffsetCommit": 5, "EndTxn": 5}
"""The version of each request that a client with transaction version 1 or 2 sends."""


class Producer(NamedTuple):
    """A transactional id with its producer id, in epoch 0."""

    transactional_id: str
    producer_id: int


class Place(NamedTuple):
    """The partition to which the transactions of a connection write records, and the group for which they commit
    offsets.
    """

    topic: str
    partition: int
    group: str | None
    """The group; None: the transactions commit no offsets."""


def connect(connection: socket.socket, transactional_id: str) -> Producer:
    """Register the transactional id, with a producer id and epoch 0."""
    while _ask(connection, "FindCoordinator", 1, FindCoordinatorRequest(transactional_id, TRANSACTION)).error_code:
        time.sleep(0.02)
    while True:
        answer = _ask(connection, "InitProducerId", 4, InitProducerIdRequest(transactional_id, TIMEOUT_MS))
        if not answer.error_code:
            return Producer(transactional_id, answer.producer_id)
        if answer.error_code not in NOT_YET:
            raise RuntimeError(f"InitProducerId was answered with {error_name(answer.error_code)}")
        time.sleep(0.02)


def _ask(connection: socket.socket, name: str, version: int, request: Message) -> Any:
    api = api_named(name)
    connection.sendall(_frame(name, version, request))
    (size,) = struct.unpack(">i", wire.receive_exactly(connection, 4))
    answer = wire.receive_exactly(connection, size)
    _, body = frames.decode_response_header(api, version, answer, 0, len(answer))
    return api.decode_response(version, answer, body)


def _frame(name: str, version: int, request: Message) -> bytes:
    return frames.request_frame(api_named(name), version, 1, request, wire.CLIENT_ID.decode())


def batch(producer_id: int, epoch: int, sequence: int, values: Sequence[bytes]) -> bytes:
    """A transactional batch with the present time."""
    builder = DefaultRecordBatchBuilder(2, 0, 1, producer_id, epoch, sequence, 1 << 21)
    now_ms = time.time_ns() // 1_000_000
    for at, value in enumerate(values):
        builder.append(at, now_ms, None, value, [])
    return bytes(builder.build())


def transaction(
    producer: Producer,
    place: Place,
    number: int,
    *,
    version: int,
    values: Sequence[bytes] = (VALUE,) * RECORDS,
    commits: bool = True,
) -> Iterator[bytes]:
    """The frames of one transaction of a producer. `number`: how many transactions of this producer came before."""
    name, producer_id = producer
    epoch, sequence = (number, 0) if version == 2 else (0, number * len(values))
    versions = VERSION_2 if version == 2 else VERSION_1

    def made(request: Message) -> bytes:
        api = type(request).__name__.removesuffix("Request")
        return _frame(api, versions[api], request)

    if version < 2:
        topics = [AddPartitionsToTxnTopic(place.topic, [place.partition])]
        yield made(AddPartitionsToTxnRequest((), name, producer_id, epoch, topics))
    rows = [PartitionProduceData(place.partition, batch(producer_id, epoch, sequence, values))]
    yield made(ProduceRequest(name, -1, 10_000, [TopicProduceData(place.topic, partition_data=rows)]))
    if place.group is not None:
        if version < 2:
            yield made(AddOffsetsToTxnRequest(name, producer_id, epoch, place.group))
        offsets = [
            TxnOffsetCommitRequestTopic("load", partitions=[TxnOffsetCommitRequestPartition(place.partition, number)])
        ]
        yield made(TxnOffsetCommitRequest(name, place.group, producer_id, epoch, topics=offsets))
    yield made(EndTxnRequest(name, producer_id, epoch, commits))


def error_positions(topic: str, *, version: int) -> list[int]:
    """The position of the error code in the frame of the answer to each request of a transaction."""

    def answers(code: int) -> list[Message]:
        partitions = [AddPartitionsToTxnPartitionResult(0, code)]
        rows = [TopicProduceResponse(topic, partition_responses=[PartitionProduceResponse(0, code)])]
        added: list[Message] = [AddPartitionsToTxnResponse(results_by_topic_v3_and_below=[
            AddPartitionsToTxnTopicResult(topic, partitions)
        ])]  # fmt: skip
        offsets = [TxnOffsetCommitResponseTopic("load", partitions=[TxnOffsetCommitResponsePartition(0, code)])]
        return [
            *(added if version < 2 else []),
            ProduceResponse(rows),
            *([AddOffsetsToTxnResponse(0, code)] if version < 2 else []),
            TxnOffsetCommitResponse(0, offsets),
            EndTxnResponse(0, code),
        ]

    return [_difference(*two, version) for two in zip(answers(0), answers(-1), strict=True)]


def _difference(one: Message, other: Message, version: int) -> int:
    """The position of the first byte in which the frames of two answers differ."""
    name = type(one).__name__.removesuffix("Response")
    api, asked = api_named(name), (VERSION_2 if version == 2 else VERSION_1)[name]
    first, second = (b"".join(frames.response_frame(api, asked, 1, answer)) for answer in (one, other))
    return next(at for at, pair in enumerate(zip(first, second, strict=True)) if pair[0] != pair[1])
