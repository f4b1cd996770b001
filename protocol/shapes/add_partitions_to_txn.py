"""AddPartitionsToTxn 0-3 have the fields of one transaction at the top instead of `transactions` (KIP-890)."""

from __future__ import annotations

from muster.protocol.errors import ErrorCode
from muster.protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnTransaction,
)

FIRST_WITH_PRODUCER_FENCED = 2


def raise_request(_version: int, request: AddPartitionsToTxnRequest) -> AddPartitionsToTxnRequest:
    """Move the transaction at the top to the only row of `transactions`."""
    row = AddPartitionsToTxnTransaction(
        transactional_id=request.v3_and_below_transactional_id,
        producer_id=request.v3_and_below_producer_id,
        producer_epoch=request.v3_and_below_producer_epoch,
        topics=request.v3_and_below_topics,
    )
    return AddPartitionsToTxnRequest(transactions=[row])


def lower_response(version: int, response: AddPartitionsToTxnResponse) -> AddPartitionsToTxnResponse:
    """Move the only row's topics to the top. An error of the whole request goes to each partition.

    Below version 2, PRODUCER_FENCED becomes INVALID_PRODUCER_EPOCH (KIP-588).
    """
    topics = response.results_by_transaction[0].topic_results if response.results_by_transaction else ()
    for topic in topics:
        for partition in topic.results_by_partition:
            if response.error_code:
                partition.partition_error_code = response.error_code
            if version < FIRST_WITH_PRODUCER_FENCED and partition.partition_error_code == ErrorCode.PRODUCER_FENCED:
                partition.partition_error_code = ErrorCode.INVALID_PRODUCER_EPOCH
    return AddPartitionsToTxnResponse(throttle_time_ms=response.throttle_time_ms, results_by_topic_v3_and_below=topics)
