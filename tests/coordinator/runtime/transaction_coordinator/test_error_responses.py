from __future__ import annotations

import pytest

from muster.coordinator.runtime.transaction_coordinator.error_responses import refuse, with_error
from muster.coordinator.transactions.commands import PartitionErrors, PartitionsAsked
from muster.protocol.message import Message
from muster.protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnPartitionResult,
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnResult,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTopicResult,
    AddPartitionsToTxnTransaction,
)
from muster.protocol.messages.describe_transactions import (
    DescribeTransactionsRequest,
    DescribeTransactionsResponse,
    TransactionState,
)
from muster.protocol.messages.end_txn import EndTxnRequest, EndTxnResponse
from muster.protocol.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from muster.protocol.messages.list_transactions import ListTransactionsRequest, ListTransactionsResponse
from muster.protocol.messages.metadata import MetadataRequest
from muster.protocol.messages.write_txn_markers import WriteTxnMarkersRequest, WriteTxnMarkersResponse

NOT_INIT = InitProducerIdResponse(error_code=16, producer_id=-1, producer_epoch=-1)


def added(*codes: int) -> AddPartitionsToTxnResponse:
    rows = [AddPartitionsToTxnPartitionResult(index, code) for index, code in enumerate(codes)]
    return AddPartitionsToTxnResponse(
        results_by_transaction=[AddPartitionsToTxnResult("x", [AddPartitionsToTxnTopicResult("t", rows)])]
    )


@pytest.mark.parametrize(
    ("request_", "answer"),
    [
        (InitProducerIdRequest("x"), NOT_INIT),
        (AddPartitionsToTxnRequest([AddPartitionsToTxnTransaction("x", topics=[AddPartitionsToTxnTopic("t", [0, 1])])]),
         added(16, 16)),
        (EndTxnRequest("x"), EndTxnResponse(error_code=16)),
        (DescribeTransactionsRequest(["x", "y"]),
         DescribeTransactionsResponse(transaction_states=[TransactionState(16, "x"), TransactionState(16, "y")])),
        (ListTransactionsRequest(), ListTransactionsResponse(error_code=16)),
    ],
    ids=lambda value: type(value).__name__,
)  # fmt: skip
def test_requests_are_refused_in_their_shape(request_: Message, answer: Message) -> None:
    assert refuse(request_, 16, OSError("no room for words")) == answer


def test_a_request_that_is_not_for_transactions_has_no_refusal() -> None:
    with pytest.raises(KeyError):
        refuse(MetadataRequest(), 16)


@pytest.mark.parametrize(
    ("response", "with_errored"),
    [
        (InitProducerIdResponse(producer_id=7, producer_epoch=2), NOT_INIT),
        (InitProducerIdResponse(error_code=51), InitProducerIdResponse(error_code=51)),
        (added(0, 90, 0), added(16, 90, 16)),
        (EndTxnResponse(producer_id=7, producer_epoch=2), EndTxnResponse(error_code=16)),
        (DescribeTransactionsResponse(transaction_states=[TransactionState(0, "x", "Ongoing"), TransactionState(105)]),
         DescribeTransactionsResponse(transaction_states=[TransactionState(16, "x"), TransactionState(105)])),
        (ListTransactionsResponse(), ListTransactionsResponse(error_code=16)),
        (WriteTxnMarkersRequest(), WriteTxnMarkersResponse()),
    ],
    ids=lambda value: type(value).__name__,
)  # fmt: skip
def test_an_answer_whose_records_were_not_written_becomes_an_error(response: Message, with_errored: Message) -> None:
    assert with_error(response, 16) == with_errored


def test_the_servers_own_partition_request_is_refused_by_partition() -> None:
    asked = PartitionsAsked("x", 1, 0, False, {"t": [0, 1]})
    answer = refuse(asked, 16)
    assert isinstance(answer, PartitionErrors)
    assert answer.errors == {("t", 0): 16, ("t", 1): 16}
    half = with_error(PartitionErrors(asked, {("t", 1): 51}), -1)
    assert isinstance(half, PartitionErrors)
    assert half.errors == {("t", 0): -1, ("t", 1): 51}
