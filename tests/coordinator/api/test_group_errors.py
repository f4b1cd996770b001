"""What members are answered by a coordinator that cannot serve a group, in bytes and in every version.

Kafka's own message definitions decode the answers, to the last byte.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest

from muster.conform.player import kafka_codec as codec
from muster.coordinator.api.dispatch import Dispatcher
from muster.coordinator.api.exchange import NO_INTERCEPT
from muster.coordinator.api.node import Node
from muster.coordinator.groups.common.settings import GroupSettings
from muster.coordinator.groups.core import GroupCore
from muster.coordinator.log.errors import LogOffline
from muster.coordinator.runtime.group_coordinator.shard import GroupShard
from muster.coordinator.runtime.routing import Routing
from muster.coordinator.system.clock import ManualClock
from muster.protocol.errors import ErrorCode
from tests.coordinator.api.harness import Answers, FakeTopics, make_channel, make_group_node, make_node
from tests.coordinator.fakes import FakeCodec, FakeLog

LOADING, NOT_COORDINATOR = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.NOT_COORDINATOR
APIS = ("JoinGroup", "SyncGroup", "Heartbeat", "LeaveGroup", "FindCoordinator")
EVERY_VERSION = [(api, version) for api in APIS for version in range(codec.highest(api) + 1)]


def body_of(api: str, version: int, group: str = "g") -> dict[str, Any]:
    """A request as a member with the id `m` sends it."""
    if api == "FindCoordinator":
        return {"CoordinatorKeys": [group]} if version > 3 else {"Key": group}
    body: dict[str, Any] = {"GroupId": group, "MemberId": "m"}
    if api == "JoinGroup":
        protocols = [{"Name": "range", "Metadata": b""}]
        return {**body, "SessionTimeoutMs": 10_000, "ProtocolType": "consumer", "Protocols": protocols}
    if api == "SyncGroup":
        return {**body, "GenerationId": 1, "ProtocolType": "consumer", "ProtocolName": "range"}
    if api == "Heartbeat":
        return {**body, "GenerationId": 1}
    return body if version < 3 else {"GroupId": group, "Members": [{"MemberId": "m"}]}


def answer(node: Node, api: str, version: int, body: dict[str, Any] | None = None) -> dict[str, Any]:
    """Ask with a frame; the body of the answer, as Kafka's definitions read it."""
    answers = Answers()
    answers.answer = answers
    frame = codec.encode_request(api, version, 9, "me", body or body_of(api, version))
    requests = Dispatcher(node, NO_INTERCEPT).open(make_channel(), answers)
    at_once = requests.handle(frame, 0, len(frame))
    if at_once is not None:
        answers(at_once)
    parts = answers.one()
    raw = parts if isinstance(parts, bytes) else b"".join(parts)
    correlation, values = codec.decode_response(api, version, raw[4:])
    assert correlation == 9
    return values


def loading_node() -> Node:
    """A node whose shard has not replayed its log yet."""
    topics, clock, log = FakeTopics(), ManualClock(), FakeLog()
    shard = GroupShard(0, partial(GroupCore, GroupSettings()), lambda: (log, 0), clock, topics.image, codec=FakeCodec())
    return make_node(topics=topics, clock=clock, routing=Routing([shard]))


def resigned_node() -> Node:
    node = make_group_node(shards=1)
    node.routing.shards[0].runtime.resign()
    return node


def error_of(api: str, version: int, values: dict[str, Any]) -> int:
    """The error of an answer. The other fields of the answer must be empty."""
    assert values.get("ThrottleTimeMs", 0) == 0
    if api == "FindCoordinator":
        return int((values["Coordinators"][0] if version > 3 else values)["ErrorCode"])
    if api == "JoinGroup":
        assert (values["GenerationId"], values["Leader"], values["Members"]) == (-1, "", [])
        assert (values["ProtocolType"], values["ProtocolName"]) == (None, None if version > 6 else "")
        assert not values["SkipAssignment"]
    elif api == "SyncGroup":
        assert (values["Assignment"], values["ProtocolType"], values["ProtocolName"]) == (b"", None, None)
    elif api == "LeaveGroup":
        assert values["Members"] == []
    return int(values["ErrorCode"])


WHILE_LOADING = {
    "JoinGroup": LOADING,
    "SyncGroup": ErrorCode.REBALANCE_IN_PROGRESS,  # older clients treat the other error as fatal
    "Heartbeat": 0,  # the member will be known again: it need not join again
    "LeaveGroup": LOADING,
    "FindCoordinator": 0,  # this API does not check the coordinator
}


@pytest.mark.parametrize(("api", "version"), EVERY_VERSION)
def test_member_requests_are_refused_while_the_group_loads(api: str, version: int) -> None:
    values = answer(loading_node(), api, version)
    assert error_of(api, version, values) == WHILE_LOADING[api]
    if api == "JoinGroup":
        assert values["MemberId"] == ""


@pytest.mark.parametrize(("api", "version"), EVERY_VERSION)
def test_member_requests_are_refused_if_another_node_has_the_group(api: str, version: int) -> None:
    values = answer(resigned_node(), api, version)
    assert error_of(api, version, values) == (0 if api == "FindCoordinator" else NOT_COORDINATOR)
    if api == "JoinGroup":
        assert values["MemberId"] == ""


@pytest.mark.parametrize(("api", "version"), [one for one in EVERY_VERSION if one[0] != "FindCoordinator"])
def test_the_empty_group_id_is_refused_before_the_coordinator_is_asked(api: str, version: int) -> None:
    values = answer(loading_node(), api, version, body_of(api, version, group=""))
    assert error_of(api, version, values) == ErrorCode.INVALID_GROUP_ID
    if api == "JoinGroup":
        assert values["MemberId"] == "m"


def test_a_sync_without_protocol_names_is_refused_before_the_group_is_looked_up() -> None:
    values = answer(loading_node(), "SyncGroup", 5, {"GroupId": "g", "MemberId": "m", "GenerationId": 1})
    assert error_of("SyncGroup", 5, values) == ErrorCode.INCONSISTENT_GROUP_PROTOCOL


def test_a_group_whose_first_record_could_not_be_written_does_not_exist() -> None:
    topics, clock, log = FakeTopics(), ManualClock(), FakeLog()
    shard = GroupShard(0, partial(GroupCore, GroupSettings()), lambda: (log, 0), clock, topics.image, codec=FakeCodec())
    for _ in shard.runtime.start():
        pass
    node = make_node(topics=topics, clock=clock, routing=Routing([shard]))
    log.fail = LogOffline("offsets-0", "disk full")
    # a version whose first request admits the member; a client that only gets an id is answered by then, as on Kafka
    refused = answer(node, "JoinGroup", 3, {**body_of("JoinGroup", 3), "MemberId": ""})
    assert error_of("JoinGroup", 3, refused) == NOT_COORDINATOR
    log.fail = None
    clock.advance(1_000)
    # the group is unknown, as before
    assert error_of("LeaveGroup", 2, answer(node, "LeaveGroup", 2)) == ErrorCode.UNKNOWN_MEMBER_ID
    assert list(shard.group_ids()) == []
