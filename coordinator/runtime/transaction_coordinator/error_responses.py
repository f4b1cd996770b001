"""The answers of a transaction coordinator that cannot decide. (For groups: `group_coordinator.error_responses`.)"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from muster.coordinator.transactions.commands import PartitionErrors, PartitionsAsked
from muster.protocol.errors import ErrorCode
from muster.protocol.message import Message
from muster.protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnPartitionResult,
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnResult,
    AddPartitionsToTxnTopicResult,
)
from muster.protocol.messages.describe_transactions import (
    DescribeTransactionsRequest,
    DescribeTransactionsResponse,
    TransactionState,
)
from muster.protocol.messages.end_txn import EndTxnRequest, EndTxnResponse
from muster.protocol.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from muster.protocol.messages.list_transactions import ListTransactionsRequest, ListTransactionsResponse
from muster.protocol.messages.write_txn_markers import WriteTxnMarkersRequest, WriteTxnMarkersResponse

_Make = Callable[[Any, int], Message]

NO_ID: Final = -1


def no_producer_id(_: object, code: int) -> InitProducerIdResponse:
    """The answer to a refused InitProducerId."""
    return InitProducerIdResponse(error_code=code, producer_id=NO_ID, producer_epoch=NO_ID)


def _add_partitions(request: AddPartitionsToTxnRequest, code: int) -> Message:
    return AddPartitionsToTxnResponse(
        results_by_transaction=[
            AddPartitionsToTxnResult(
                one.transactional_id,
                [
                    AddPartitionsToTxnTopicResult(
                        topic.name, [AddPartitionsToTxnPartitionResult(index, code) for index in topic.partitions]
                    )
                    for topic in one.topics
                ],
            )
            for one in request.transactions
        ]
    )


def _partitions_not_added(response: AddPartitionsToTxnResponse, code: int) -> Message:
    for one in response.results_by_transaction:
        for topic in one.topic_results:
            for row in topic.results_by_partition:
                row.partition_error_code = row.partition_error_code or code
    return response


_MAKERS: Final[dict[type, _Make]] = {
    InitProducerIdRequest: no_producer_id,
    AddPartitionsToTxnRequest: _add_partitions,
    PartitionsAsked: lambda asked, code: PartitionErrors(asked, asked.all_with(code)),
    EndTxnRequest: lambda _, code: EndTxnResponse(error_code=code),
    DescribeTransactionsRequest: lambda r, code: DescribeTransactionsResponse(
        transaction_states=[TransactionState(code, transactional_id) for transactional_id in r.transactional_ids]
    ),
    ListTransactionsRequest: lambda _, code: ListTransactionsResponse(error_code=code),
    InitProducerIdResponse: no_producer_id,
    AddPartitionsToTxnResponse: _partitions_not_added,
    PartitionErrors: lambda r, code: PartitionErrors(r.asked, r.asked.all_with(code) | dict(r.errors)),
    EndTxnResponse: lambda _, code: EndTxnResponse(error_code=code),
    DescribeTransactionsResponse: lambda r, code: DescribeTransactionsResponse(
        transaction_states=[
            TransactionState(one.error_code or code, one.transactional_id) for one in r.transaction_states
        ]
    ),
    ListTransactionsResponse: lambda _, code: ListTransactionsResponse(error_code=code),
    # This reply would send markers to partitions. No marker may be written: the log does not have the decision.
    WriteTxnMarkersRequest: lambda *_: WriteTxnMarkersResponse(),
}


def refuse(request: Message, error_code: int, why: Exception | None = None) -> Message:  # noqa: ARG001  # no response has a field for a text
    """The answer to `request` with only `error_code`. Raises KeyError for unknown requests."""
    return _MAKERS[type(request)](request, error_code)


def with_error(response: Message, error_code: int) -> Message:
    """The answer instead of `response` when its records were not written: an earlier error in `response` stays."""
    if getattr(response, "error_code", ErrorCode.NONE) != ErrorCode.NONE:
        return response
    return _MAKERS[type(response)](response, error_code)
