"""Which protocols of groups are served: those of the configuration whose feature has a level."""

from __future__ import annotations

from typing import Any

import pytest

from muster.coordinator.api.node import Node
from muster.coordinator.topics.features import GROUP, STREAMS
from muster.protocol.errors import ErrorCode
from muster.protocol.message import Message
from muster.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from muster.protocol.messages.streams_group_describe import StreamsGroupDescribeRequest
from muster.protocol.messages.streams_group_heartbeat import StreamsGroupHeartbeatRequest
from tests.coordinator.api.harness import ask, make_group_node
from tests.coordinator.topics.support import started_with

PROTOCOLS = "group.coordinator.rebalance.protocols"
BEATS = {"consumer": ConsumerGroupHeartbeatRequest("g", "A", 2), "streams": StreamsGroupHeartbeatRequest("g", "A", 2)}
FEATURES = {"consumer": GROUP, "streams": STREAMS}


def error_of(node: Node, request: Message) -> int:
    code: int = ask(node, request).one().error_code
    return code


@pytest.mark.parametrize("protocol", ["consumer", "streams"])
def test_a_protocol_that_is_not_configured_is_not_served(protocol: str) -> None:
    left = ",".join({"classic", "consumer", "streams"} - {protocol})
    node = make_group_node(config=started_with({PROTOCOLS: left}))
    codes = {name: error_of(node, request) for name, request in BEATS.items()}
    other = next(name for name in BEATS if name != protocol)
    assert codes == {protocol: ErrorCode.UNSUPPORTED_VERSION, other: ErrorCode.GROUP_ID_NOT_FOUND}


@pytest.mark.parametrize("protocol", ["consumer", "streams"])
def test_a_protocol_is_served_while_its_feature_has_a_level(protocol: str) -> None:
    node = make_group_node()
    features: Any = node.topics.state.features
    assert error_of(node, BEATS[protocol]) == ErrorCode.GROUP_ID_NOT_FOUND
    for level, code in ((0, ErrorCode.UNSUPPORTED_VERSION), (1, ErrorCode.GROUP_ID_NOT_FOUND)):
        features[FEATURES[protocol]] = level
        node.features_changed()
        assert error_of(node, BEATS[protocol]) == code


def test_groups_of_a_protocol_that_is_not_served_are_not_described() -> None:
    node = make_group_node(config=started_with({PROTOCOLS: "classic"}))
    answer = ask(node, StreamsGroupDescribeRequest(["g", ""], include_topology_description=True)).one()
    rows = [(one.group_id, one.error_code, one.error_message, one.topology_description_status) for one in answer.groups]
    assert rows == [("g", ErrorCode.UNSUPPORTED_VERSION, None, 0), ("", ErrorCode.UNSUPPORTED_VERSION, None, 0)]
