"""Members of KIP-848 that break rules, and members that look alike and keep them."""

from __future__ import annotations

import pytest

from muster.protocol.errors import ErrorCode
from muster.protocol.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)
from muster.protocol.messages.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic
from muster.protocol.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
    ListOffsetsTopicResponse,
)
from muster.protocol.messages.metadata import MetadataRequest, MetadataResponse, MetadataResponseTopic
from muster.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
)
from tests.clientlint.scripted import Scripted

TOPIC_ID = bytes(15) + b"\7"


def beat(client: Scripted, epoch: int, answered: int = 0, error: int = 0) -> None:
    answer = ConsumerGroupHeartbeatResponse(
        error_code=error, member_id="m", member_epoch=answered or epoch, heartbeat_interval_ms=0 if error else 5_000
    )
    client.ask(ConsumerGroupHeartbeatRequest(group_id="g", member_id="m", member_epoch=epoch), answer)


@pytest.fixture
def client() -> Scripted:
    made = Scripted()
    beat(made, 0, 3)
    return made


def test_a_member_that_keeps_all_rules_has_no_finding(client: Scripted) -> None:
    for _ in range(20):
        beat(client.later(5_000), 3)
    beat(client.later(5_000), 3, 4)
    beat(client.later(1), 4)
    beat(client.later(5_000), 4, error=ErrorCode.FENCED_MEMBER_EPOCH)
    beat(client.later(300), 0, 5)
    beat(client.later(5_000), 5)
    beat(client.later(100), -1)
    beat(client.later(1_000), 0, 6)
    assert client.rules == []


def test_an_epoch_that_is_not_honoured(client: Scripted) -> None:
    beat(client.later(5_000), 3, 4)
    beat(client.later(5_000), 3)
    assert client.rules == ["epoch-not-honoured sure"]


def test_an_answer_that_was_lost_is_not_known(client: Scripted) -> None:
    client.later(5_000).send(ConsumerGroupHeartbeatRequest(group_id="g", member_id="m", member_epoch=3))
    client.reconnect()
    beat(client.later(5_000), 3)
    assert client.rules == []


@pytest.mark.parametrize("error", [ErrorCode.FENCED_MEMBER_EPOCH, ErrorCode.UNKNOWN_MEMBER_ID])
def test_a_fenced_member_goes_on(client: Scripted, error: int) -> None:
    beat(client.later(5_000), 3, error=error)
    beat(client.later(100), 3, error=error)
    assert client.rules == []
    beat(client.later(5_000), 3, error=error)
    assert client.rules == ["no-rejoin-after-fence sure"]


def test_a_member_that_has_left_goes_on(client: Scripted) -> None:
    beat(client.later(5_000), -1)
    beat(client.later(5_000), 3)
    assert client.rules == ["request-after-leave sure"]


def test_heartbeats_that_are_too_frequent(client: Scripted) -> None:
    for _ in range(10):
        beat(client.later(100), 3)
    assert client.rules == ["heartbeat-interval perhaps"]


def test_heartbeats_with_news_may_be_frequent(client: Scripted) -> None:
    answer = ConsumerGroupHeartbeatResponse(member_id="m", member_epoch=3, heartbeat_interval_ms=5_000)
    for _ in range(20):
        request = ConsumerGroupHeartbeatRequest(group_id="g", member_id="m", member_epoch=3, topic_partitions=[])
        client.later(100).ask(request, answer)
    assert client.rules == []


def test_a_heartbeat_that_is_late(client: Scripted) -> None:
    beat(client.later(16_000), 3)
    assert client.rules == ["heartbeat-interval perhaps"]


def test_a_session_that_the_member_does_not_hold(client: Scripted) -> None:
    beat(client.later(60_000), 3, error=ErrorCode.UNKNOWN_MEMBER_ID)
    assert "session-not-held sure" in client.rules


def test_silence_after_a_fatal_error(client: Scripted) -> None:
    beat(client.later(5_000), 3, error=ErrorCode.FENCED_INSTANCE_ID)
    assert client.later(29_000).rules == []
    assert client.later(2_000).rules == ["silent-after-fatal-error perhaps"]


def test_silence_after_a_fatal_error_of_the_join() -> None:
    client = Scripted()
    beat(client, 0, error=ErrorCode.UNRELEASED_INSTANCE_ID)
    assert client.later(31_000).rules == ["silent-after-fatal-error perhaps"]


def test_a_client_that_ends_after_a_fatal_error_was_not_silent(client: Scripted) -> None:
    beat(client.later(5_000), 3, error=ErrorCode.FENCED_INSTANCE_ID)
    client.later(100).close()
    assert client.later(31_000).rules == []


def test_a_member_that_tries_again_after_a_fatal_error_was_not_silent() -> None:
    client = Scripted()
    beat(client, 0, error=ErrorCode.UNRELEASED_INSTANCE_ID)
    beat(client.later(1_000), 0, 2)
    assert client.later(31_000).rules == []


def test_refused_joins_and_unanswered_heartbeats_are_no_finding() -> None:
    client = Scripted()
    beat(client, 0, error=ErrorCode.GROUP_AUTHORIZATION_FAILED)
    client.ask(ConsumerGroupHeartbeatRequest(group_id="g", member_id="m", member_epoch=1), None)
    assert client.later(31_000).rules == []


# ---- OffsetFetch with a stale epoch


def fetch_offsets(client: Scripted, error: int, *, by_id: bool) -> None:
    topic = OffsetFetchRequestTopics(topic_id=TOPIC_ID) if by_id else OffsetFetchRequestTopics("t")
    request = OffsetFetchRequest(groups=[OffsetFetchRequestGroup("g", "m", 3, topics=[topic])])
    client.ask(request, OffsetFetchResponse(groups=[OffsetFetchResponseGroup("g", error_code=error)]))


def look_up(client: Scripted, timestamp: int = -1) -> None:
    client.ask(
        ListOffsetsRequest(topics=[ListOffsetsTopic("t", [ListOffsetsPartition(0, timestamp=timestamp)])]),
        ListOffsetsResponse(topics=[ListOffsetsTopicResponse("t", [ListOffsetsPartitionResponse(0, offset=77)])]),
    )


def read(client: Scripted, offset: int = 77) -> None:
    request = FetchRequest(topics=[FetchTopic("t", partitions=[FetchPartition(0, fetch_offset=offset)])])
    client.ask(request, FetchResponse())


@pytest.mark.parametrize("by_id", [False, True])
def test_a_consumer_begins_at_the_end_after_a_stale_epoch(*, by_id: bool) -> None:
    client = Scripted()
    client.ask(MetadataRequest(), MetadataResponse(topics=[MetadataResponseTopic(name="t", topic_id=TOPIC_ID)]))
    fetch_offsets(client, ErrorCode.STALE_MEMBER_EPOCH, by_id=by_id)
    look_up(client)
    read(client.later(5))
    assert client.rules == ["reset-after-stale-epoch sure"]
    assert "reads t-0 from the end, offset 77, 5 ms after OffsetFetch" in client.found[0].evidence[0][1]


def test_a_consumer_asks_for_its_offsets_again_after_a_stale_epoch() -> None:
    client = Scripted()
    fetch_offsets(client, ErrorCode.STALE_MEMBER_EPOCH, by_id=False)
    fetch_offsets(client, ErrorCode.NONE, by_id=False)
    look_up(client)
    read(client)
    assert client.rules == []


def test_a_lookup_of_other_offsets_after_a_stale_epoch_is_no_finding() -> None:
    client = Scripted()
    fetch_offsets(client, ErrorCode.STALE_MEMBER_EPOCH, by_id=False)
    look_up(client, timestamp=1_000)
    read(client)
    look_up(client)
    read(client, offset=5)
    assert client.rules == []
