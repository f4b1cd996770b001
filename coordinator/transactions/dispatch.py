"""Which function decides what: by request, and by kind of deadline."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from muster.coordinator.transactions import add_partitions, describe, end_txn, init_producer_id
from muster.coordinator.transactions.commands import PartitionsAsked
from muster.coordinator.transactions.state import TIMEOUTS, Step
from muster.coordinator.transactions.timeouts import EXPIRY
from muster.coordinator.transactions.timeouts import on_expiry_deadline as on_expiry
from muster.coordinator.transactions.timeouts import on_timeouts_deadline as on_timeouts
from muster.protocol.message import Message
from muster.protocol.messages.add_partitions_to_txn import AddPartitionsToTxnRequest
from muster.protocol.messages.describe_transactions import DescribeTransactionsRequest
from muster.protocol.messages.end_txn import EndTxnRequest
from muster.protocol.messages.init_producer_id import InitProducerIdRequest
from muster.protocol.messages.list_transactions import ListTransactionsRequest

REQUESTS: Final[Mapping[type[Message], Callable[[Step, Any, Any], None]]] = {
    AddPartitionsToTxnRequest: add_partitions.handle,
    PartitionsAsked: add_partitions.handle_one,
    EndTxnRequest: end_txn.handle,
    InitProducerIdRequest: init_producer_id.handle,
    DescribeTransactionsRequest: describe.describe_transactions,
    ListTransactionsRequest: describe.list_transactions,
}
"""function(step, command, request)."""

DEADLINES: Final[Mapping[str, Callable[[Step, Any], None]]] = {
    TIMEOUTS: on_timeouts,
    EXPIRY: on_expiry,
}
"""By the deadline's kind: function(step, deadline)."""
