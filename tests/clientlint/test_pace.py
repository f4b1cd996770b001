"""How fast clients ask: throttle times, retries, metadata, lookups, and fetch sessions."""

from __future__ import annotations

import pytest

from muster.protocol.errors import ErrorCode
from muster.protocol.messages.fetch import (
    FetchableTopicResponse,
    FetchRequest,
    FetchResponse,
    PartitionData,
)
from muster.protocol.messages.find_coordinator import Coordinator, FindCoordinatorRequest, FindCoordinatorResponse
from muster.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from muster.protocol.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
    MetadataResponseTopic,
)
from tests.clientlint.scripted import Scripted

REFUSED = HeartbeatResponse(error_code=ErrorCode.NOT_COORDINATOR)
MOVED = FetchResponse(
    responses=[FetchableTopicResponse("t", partitions=[PartitionData(error_code=ErrorCode.NOT_LEADER_OR_FOLLOWER)])]
)


@pytest.fixture
def client() -> Scripted:
    return Scripted()


def beat(client: Scripted, answer: HeartbeatResponse, version: int | None = None) -> None:
    client.ask(HeartbeatRequest("g", 1, "m"), answer, version)


def test_a_throttle_time_is_ignored(client: Scripted) -> None:
    beat(client, HeartbeatResponse(throttle_time_ms=5_000))
    beat(client.later(1_000), HeartbeatResponse())
    beat(client.later(1_000), HeartbeatResponse())
    assert client.rules == ["throttle-ignored perhaps"]
    beat(client.later(1_000), HeartbeatResponse())
    assert client.rules == ["throttle-ignored sure"]


def test_a_throttle_time_is_kept(client: Scripted) -> None:
    beat(client, HeartbeatResponse(throttle_time_ms=5_000))
    beat(client, HeartbeatResponse())
    beat(client.later(5_000), HeartbeatResponse())
    client.reconnect()
    assert client.rules == []


def test_clients_of_old_versions_need_not_wait(client: Scripted) -> None:
    beat(client, HeartbeatResponse(throttle_time_ms=5_000), version=1)
    for _ in range(3):
        beat(client.later(1_000), HeartbeatResponse())
    assert client.rules == []


def test_requests_that_were_sent_before_the_throttled_answer(client: Scripted) -> None:
    """The second and the third request were sent with the first, and were read when the one before was answered."""
    client.ask(HeartbeatRequest("g", 1, "m"), HeartbeatResponse(throttle_time_ms=5_000))
    for _ in range(3):
        client.ask(HeartbeatRequest("g", 1, "m"), HeartbeatResponse(), took_ms=500)
    assert client.rules == []


def test_retries_without_a_pause(client: Scripted) -> None:
    for _ in range(10):
        beat(client.later(3), HeartbeatResponse(error_code=ErrorCode.COORDINATOR_LOAD_IN_PROGRESS))
    assert client.rules == ["retry-without-backoff sure"]


def test_retries_with_a_pause(client: Scripted) -> None:
    for _ in range(30):
        beat(client.later(100), HeartbeatResponse(error_code=ErrorCode.COORDINATOR_LOAD_IN_PROGRESS))
    assert client.rules == []


def test_a_program_that_asks_for_many_things_in_turn_does_not_retry(client: Scripted) -> None:
    for number in range(30):
        topics = [MetadataRequestTopic(name=f"t{number}")]
        rows = [MetadataResponseTopic(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"t{number}")]
        client.later(1).ask(MetadataRequest(topics=topics), MetadataResponse(topics=rows))
        keys = FindCoordinatorRequest(coordinator_keys=[f"g{number}"])
        refused = FindCoordinatorResponse(coordinators=[Coordinator(error_code=ErrorCode.COORDINATOR_NOT_AVAILABLE)])
        client.ask(keys, refused)
    assert client.rules == []


def test_retries_that_succeed_or_fail_for_good(client: Scripted) -> None:
    for _ in range(10):
        beat(client.later(1), HeartbeatResponse(error_code=ErrorCode.COORDINATOR_LOAD_IN_PROGRESS))
        beat(client.later(1), HeartbeatResponse())
    for _ in range(30):
        beat(client.later(1), HeartbeatResponse(error_code=ErrorCode.UNKNOWN_MEMBER_ID))
    assert client.rules == []


def test_many_requests_in_flight_that_all_fail_are_no_retries(client: Scripted) -> None:
    for _ in range(50):
        client.ask(FetchRequest(session_epoch=-1), MOVED)
    assert client.rules == []


def test_connections_that_are_opened_again_at_once(client: Scripted) -> None:
    for _ in range(11):
        client.later(5).send(MetadataRequest())
        client.reconnect()
    assert client.rules == ["reconnect-without-backoff perhaps"]


def test_connections_that_are_opened_with_a_pause_or_had_answers(client: Scripted) -> None:
    for _ in range(20):
        client.send(MetadataRequest())
        client.reconnect(pause_ms=50)
    for _ in range(20):
        ask_metadata(client, "t")
        client.reconnect()
    assert client.rules == []


def ask_metadata(client: Scripted, *topics: str) -> None:
    client.ask(MetadataRequest(topics=[MetadataRequestTopic(name=one) for one in topics]), MetadataResponse())


def test_a_storm_of_metadata_requests(client: Scripted) -> None:
    for _ in range(20):
        ask_metadata(client.later(10), "a", "b")
    assert client.rules == ["metadata-storm perhaps"]
    assert "(2 topics) in 190 ms" in client.found[0].evidence[0][1]


def test_metadata_of_many_topics_or_now_and_then(client: Scripted) -> None:
    for number in range(50):
        ask_metadata(client.later(1), f"t{number}")
    for _ in range(50):
        ask_metadata(client.later(100), "a")
    for _ in range(10):
        client.later(10).ask(MetadataRequest(topics=None), MetadataResponse())
    client.close()
    assert client.rules == []


# ---- who is responsible


def test_a_coordinator_that_has_moved_is_not_looked_up(client: Scripted) -> None:
    for _ in range(11):
        beat(client.later(500), REFUSED)
    assert client.rules == ["no-lookup sure"]


def test_a_coordinator_that_has_moved_is_looked_up(client: Scripted) -> None:
    for _ in range(20):
        beat(client.later(500), REFUSED)
        client.ask(FindCoordinatorRequest(coordinator_keys=["g"]), FindCoordinatorResponse())
    for _ in range(8):
        beat(client.later(500), REFUSED)
    beat(client.later(500), HeartbeatResponse())
    beat(client.later(500), REFUSED)
    assert client.rules == []


def test_a_leader_that_has_moved_is_not_looked_up(client: Scripted) -> None:
    for _ in range(11):
        client.later(500).ask(FetchRequest(session_epoch=-1), MOVED)
    assert client.rules == ["no-lookup sure"]


def test_a_leader_that_has_moved_is_looked_up(client: Scripted) -> None:
    for _ in range(3):
        for _ in range(90):
            client.later(30).ask(FetchRequest(session_epoch=-1), MOVED)
        ask_metadata(client.later(10), "t")
    assert client.rules == []


# ---- fetch sessions


def fetch(client: Scripted, session_id: int, epoch: int, given: int = 7, error: int = 0) -> None:
    request = FetchRequest(session_id=session_id, session_epoch=epoch)
    client.later(10).ask(request, FetchResponse(session_id=given, error_code=error))


def test_sessions_that_are_forgotten(client: Scripted) -> None:
    for number in range(4):
        fetch(client, 0, 0, given=number + 1)
    assert client.rules == ["fetch-session-forgotten sure"]


def test_sessions_that_are_used_closed_or_not_wanted(client: Scripted) -> None:
    for _ in range(3):
        fetch(client, 0, 0)
        fetch(client, 7, 1)
        fetch(client, 7, 2)
        fetch(client, 7, -1, given=0)
    for _ in range(5):
        fetch(client, 0, 0, error=ErrorCode.FETCH_SESSION_ID_NOT_FOUND)
    for _ in range(5):
        fetch(client, 0, -1, given=0)
    client.close()
    assert client.rules == []


def test_a_wrong_epoch_of_a_session(client: Scripted) -> None:
    fetch(client, 0, 0)
    fetch(client, 7, 5, error=ErrorCode.INVALID_FETCH_SESSION_EPOCH)
    assert client.rules == ["fetch-session-epoch sure"]
    assert "epoch 5 of session 7, after an answer in epoch 0" in client.found[0].evidence[0][1]


def test_a_right_epoch_that_was_refused_is_no_finding(client: Scripted) -> None:
    fetch(client, 0, 0)
    fetch(client, 7, 1, error=ErrorCode.INVALID_FETCH_SESSION_EPOCH)
    fetch(client, 9, 3, error=ErrorCode.INVALID_FETCH_SESSION_EPOCH)
    assert client.rules == []


def test_followers_are_not_looked_at(client: Scripted) -> None:
    for _ in range(5):
        client.ask(FetchRequest(replica_id=2, session_epoch=0), FetchResponse(session_id=7))
    client.ask(FetchRequest(), None)
    assert client.rules == []
