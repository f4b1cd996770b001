"""Old versions, embedded bytes, invalid requests, and transactions."""

from __future__ import annotations

import pytest

from muster.protocol.consumer import encode_assignment, encode_subscription
from muster.protocol.errors import ErrorCode
from muster.protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnPartitionResult,
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnResult,
    AddPartitionsToTxnTopicResult,
    AddPartitionsToTxnTransaction,
)
from muster.protocol.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)
from muster.protocol.messages.consumer_protocol import ConsumerProtocolAssignment, ConsumerProtocolSubscription
from muster.protocol.messages.end_txn import EndTxnRequest, EndTxnResponse
from muster.protocol.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from muster.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol, JoinGroupResponse
from muster.protocol.messages.metadata import MetadataRequest, MetadataResponse
from muster.protocol.messages.produce import ProduceRequest, ProduceResponse
from muster.protocol.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment, SyncGroupResponse
from tests.clientlint.scripted import Scripted


@pytest.fixture
def client() -> Scripted:
    return Scripted()


def test_an_old_version_is_said_once(client: Scripted) -> None:
    for _ in range(3):
        client.ask(MetadataRequest(), MetadataResponse(), version=4)
    assert client.rules == ["old-version sure"]
    assert client.found[0].count == 1
    assert client.found[0].evidence[0][1].startswith("Metadata version 4: no leader epochs")


def test_a_new_version_is_no_finding(client: Scripted) -> None:
    client.ask(MetadataRequest(), MetadataResponse())
    assert client.rules == []


def join(client: Scripted, metadata: bytes, protocol_type: str = "consumer") -> None:
    protocols = [JoinGroupRequestProtocol("range", metadata)]
    client.ask(JoinGroupRequest(group_id="g", protocol_type=protocol_type, protocols=protocols), JoinGroupResponse())


def sync(client: Scripted, assignment: bytes, protocol_type: str | None = "consumer") -> None:
    rows = [SyncGroupRequestAssignment("m", assignment)]
    client.ask(SyncGroupRequest(group_id="g", protocol_type=protocol_type, assignments=rows), SyncGroupResponse())


@pytest.mark.parametrize("data", [b"", b"\0", b"\0\1\0\0\0\5"])
def test_a_subscription_that_does_not_parse(client: Scripted, data: bytes) -> None:
    join(client, data)
    assert client.rules == ["unreadable-subscription sure"]


def test_a_subscription_of_which_a_broker_can_read_the_topics(client: Scripted) -> None:
    whole = encode_subscription(ConsumerProtocolSubscription(topics=["t"]), version=0)
    join(client, b"\0\1" + whole[2:])
    assert client.rules == ["unreadable-subscription perhaps"]


def test_an_assignment_that_does_not_parse(client: Scripted) -> None:
    sync(client, b"\0\1\0")
    assert client.rules == ["unreadable-subscription sure"]


def test_bytes_that_parse_or_are_no_business_of_consumers(client: Scripted) -> None:
    join(client, encode_subscription(ConsumerProtocolSubscription(topics=["t"])))
    join(client, b"", protocol_type="connect")
    join(client, bytes(100_000))
    sync(client, encode_assignment(ConsumerProtocolAssignment()))
    sync(client, b"")
    sync(client, b"x", protocol_type="connect")
    sync(client, b"x", protocol_type=None)
    assert client.rules == []


def test_a_request_that_is_refused_as_invalid(client: Scripted) -> None:
    answer = ConsumerGroupHeartbeatResponse(error_code=ErrorCode.INVALID_REQUEST, error_message="no topics")
    client.ask(ConsumerGroupHeartbeatRequest(group_id="g"), answer)
    client.ask(EndTxnRequest("t"), EndTxnResponse(error_code=ErrorCode.INVALID_REQUEST))
    assert client.rules == ["invalid-request sure", "invalid-request sure"]
    assert [one.evidence[0][1].partition("was refused with ")[2] for one in client.found] == [
        "INVALID_REQUEST: no topics",
        "INVALID_REQUEST",
    ]


# ---- transactions


def end(client: Scripted, error: int = 0, epoch: int = 1, *, committed: bool = True) -> None:
    client.ask(EndTxnRequest("t", 7, epoch, committed), EndTxnResponse(error_code=error), version=4)


def add(client: Scripted, error: int = 0, epoch: int = 1, *, verify_only: bool = False) -> None:
    request = AddPartitionsToTxnRequest([AddPartitionsToTxnTransaction("t", 7, epoch, verify_only)])
    rows = [AddPartitionsToTxnTopicResult("x", [AddPartitionsToTxnPartitionResult(0, error)])]
    client.ask(request, AddPartitionsToTxnResponse(results_by_transaction=[AddPartitionsToTxnResult("t", rows)]))


def transaction_rules(client: Scripted) -> list[str]:
    return [one for one in client.rules if not one.startswith("old-version")]


def test_a_transaction_is_ended_twice(client: Scripted) -> None:
    add(client)
    end(client)
    end(client.later(1_000), committed=False)
    assert transaction_rules(client) == ["transaction-ended-twice sure"]
    assert "EndTxn (abort) of t 1.0 s after EndTxn (commit)" in client.found[-1].evidence[0][1]


def test_each_transaction_is_ended_once(client: Scripted) -> None:
    for _ in range(3):
        add(client.later(1_000))
        end(client.later(1_000), error=ErrorCode.CONCURRENT_TRANSACTIONS)
        end(client.later(1_000))
    client.ask(ProduceRequest("t"), ProduceResponse())
    end(client.later(1_000))
    client.ask(InitProducerIdRequest("t"), InitProducerIdResponse())
    end(client.later(1_000), epoch=2)
    assert transaction_rules(client) == []


def test_an_end_that_is_repeated_because_its_answer_was_lost(client: Scripted) -> None:
    add(client)
    client.send(EndTxnRequest("t", 7, 1, True))
    client.reconnect()
    end(client.later(1_000))
    assert transaction_rules(client) == []


def test_a_transaction_that_has_to_be_aborted_is_committed(client: Scripted) -> None:
    add(client, error=ErrorCode.TRANSACTION_ABORTABLE)
    end(client.later(1_000))
    assert transaction_rules(client) == ["commit-after-abortable sure"]


def test_a_transaction_that_has_to_be_aborted_is_aborted(client: Scripted) -> None:
    add(client, error=ErrorCode.TRANSACTION_ABORTABLE)
    end(client.later(1_000), committed=False)
    add(client.later(1_000))
    end(client.later(1_000))
    assert transaction_rules(client) == []


def test_a_producer_goes_on_after_it_was_fenced(client: Scripted) -> None:
    add(client)
    end(client, error=ErrorCode.PRODUCER_FENCED)
    add(client.later(1_000))
    assert transaction_rules(client) == ["producer-after-fence sure"]


def test_a_fenced_producer_begins_anew(client: Scripted) -> None:
    end(client, error=ErrorCode.PRODUCER_FENCED)
    add(client.later(1), verify_only=True)
    client.later(1_000).ask(InitProducerIdRequest("t"), InitProducerIdResponse())
    add(client.later(1_000), epoch=2)
    client.ask(EndTxnRequest("t", 7, 2, True), None)
    assert transaction_rules(client) == []
