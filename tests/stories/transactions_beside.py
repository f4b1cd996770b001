"""A transaction coordinator beside a core of groups, in virtual time, so that offsets can be committed in transactions.

It has no log, and only the partition of the groups: a marker is in force at once. It also does the work of the handlers
around the two cores, as shortly as possible, for the newest versions of the requests.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

from muster.coordinator.state_machine.interface import Client, EndTransaction, Now, Respond
from muster.coordinator.state_machine.output import Output
from muster.coordinator.transactions.commands import MarkersWritten, TransactionCommand, TransactionSettings
from muster.coordinator.transactions.core import TransactionCore
from muster.protocol.errors import ErrorCode
from muster.protocol.message import Message
from muster.protocol.messages.add_offsets_to_txn import AddOffsetsToTxnRequest, AddOffsetsToTxnResponse
from muster.protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTransaction,
)
from muster.protocol.messages.end_txn import EndTxnRequest
from muster.protocol.messages.init_producer_id import InitProducerIdRequest
from muster.protocol.messages.txn_offset_commit import TxnOffsetCommitRequest

OFFSETS = "__consumer_offsets"
ADDS, RAISES_EPOCH = 5, 5
"""TxnOffsetCommit adds its partition from this version on, and EndTxn raises the epoch."""
KNOWS_ABORTABLE = 4
MAX_TRIES = 5
Asked = InitProducerIdRequest | AddOffsetsToTxnRequest | EndTxnRequest
"""Requests to it."""


class TransactionsBeside:
    """The coordinator of this module. `end`: applies a marker to the groups."""

    def __init__(self, end: Callable[[EndTransaction], object], now: Callable[[], Now]) -> None:
        self._end, self._now = end, now
        self._core = TransactionCore(TransactionSettings(), self._send_markers)
        self._core.loaded(now())
        self._ends: list[tuple[str, Any]] = []
        self._ids = itertools.count()

    def ask(self, request: Asked, version: int, respond: Respond, client: Client) -> None:
        """Ask as a client does, which asks again when it is answered CONCURRENT_TRANSACTIONS."""
        if isinstance(request, AddOffsetsToTxnRequest):
            error = self._add(
                request.transactional_id,
                (request.producer_id, request.producer_epoch),
                client,
                verify_only=False,
                version=0,
            )
            respond(AddOffsetsToTxnResponse(error_code=error))
            return
        spare = next(self._ids) if isinstance(request, InitProducerIdRequest | EndTxnRequest) else -1
        newest = 2 if isinstance(request, EndTxnRequest) and version >= RAISES_EPOCH else 0
        for _ in range(MAX_TRIES):
            answer: Any = self._answer(request, client, newest, spare)
            if answer.error_code != ErrorCode.CONCURRENT_TRANSACTIONS:
                break
        respond(answer)

    def refusal(self, request: TxnOffsetCommitRequest, version: int, client: Client) -> int:
        """Why the offsets cannot be part of the transaction; 0 when they can."""
        if not request.group_id:
            return ErrorCode.INVALID_GROUP_ID
        producer = (request.producer_id, request.producer_epoch)
        adds = version >= ADDS
        error = self._add(request.transactional_id, producer, client, verify_only=not adds, version=2 if adds else 0)
        if error == ErrorCode.PRODUCER_FENCED:
            return ErrorCode.INVALID_PRODUCER_EPOCH
        if error == ErrorCode.TRANSACTION_ABORTABLE and version < KNOWS_ABORTABLE:
            return ErrorCode.INVALID_TXN_STATE
        return error

    def _add(
        self, transactional_id: str, producer: tuple[int, int], client: Client, *, verify_only: bool, version: int
    ) -> int:
        if not transactional_id:
            return ErrorCode.INVALID_REQUEST
        topics = [AddPartitionsToTxnTopic(OFFSETS, [0])]
        transaction = AddPartitionsToTxnTransaction(transactional_id, *producer, verify_only, topics)
        answer: Any = self._answer(AddPartitionsToTxnRequest([transaction]), client, version, -1)
        return int(answer.results_by_transaction[0].topic_results[0].results_by_partition[0].partition_error_code)

    def _answer(self, request: Message, client: Client, version: int, spare: int) -> Message:
        answers: list[Message] = []
        self._take(self._core.handle(TransactionCommand(request, answers.append, client, version, spare), self._now()))
        return answers[0]

    def _take(self, output: Output) -> None:
        for respond, response in output.replies:
            respond(response)
        ends, self._ends = self._ends, []
        for transactional_id, asked in ends:
            (marker,) = asked.markers
            producer = (marker.producer_id, marker.producer_epoch)
            self._end(EndTransaction(*producer, marker.transaction_result))
            self._take(self._core.handle(MarkersWritten(transactional_id, *producer), self._now()))

    def _send_markers(self, transactional_id: str) -> Respond:
        return lambda asked: self._ends.append((transactional_id, asked))
