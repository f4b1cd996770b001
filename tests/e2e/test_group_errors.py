"""Refusals over TCP of requests that do not fit the group or the protocol, in every version.

Kafka's own message definitions decode the answers, to the last byte; the tests pass on Apache Kafka as well.
"""

from __future__ import annotations

import socket
import struct
from typing import Any

import pytest

from muster.conform.player import kafka_codec as codec
from tests.e2e.test_bad_clients import closed_by, header, raw_frame
from tests.support import wire
from tests.support.servers import ServerProcess

APIS = ("JoinGroup", "SyncGroup", "Heartbeat", "LeaveGroup", "FindCoordinator")
FIRST_WITH_THROTTLE = {"JoinGroup": 2, "SyncGroup": 1, "Heartbeat": 1, "LeaveGroup": 1, "FindCoordinator": 1}
UNKNOWN_MEMBER_ID = 25


def ask(connection: socket.socket, api: str, version: int, body: dict[str, Any]) -> tuple[bytes, dict[str, Any]]:
    """The answer without its size, and its body."""
    frame = codec.encode_request(api, version, version, "me", body)
    connection.sendall(struct.pack(">i", len(frame)) + frame)
    (size,) = struct.unpack(">i", wire.receive_exactly(connection, 4))
    raw = wire.receive_exactly(connection, size)
    correlation, values = codec.decode_response(api, version, raw)
    assert correlation == version
    return raw, values


def request_of(api: str, version: int, group: str) -> dict[str, Any]:
    """A request of an unknown member in an unknown group."""
    member = {"GroupId": group, "MemberId": "ghost"}
    return {
        "JoinGroup": {
            **member,
            "SessionTimeoutMs": 10_000,
            "ProtocolType": "consumer",
            "Protocols": [{"Name": "range", "Metadata": b""}],
        },
        "SyncGroup": {**member, "GenerationId": 1, "ProtocolType": "consumer", "ProtocolName": "range"},
        "Heartbeat": {**member, "GenerationId": 1},
        "LeaveGroup": member if version < 3 else {"GroupId": group, "Members": [{"MemberId": "ghost"}]},
        "FindCoordinator": {"Key": group} if version < 4 else {"CoordinatorKeys": [group]},
    }[api]


@pytest.mark.parametrize("api", APIS)
def test_requests_to_an_unknown_group_are_refused_in_every_version(server: ServerProcess, group: str, api: str) -> None:
    with socket.create_connection(server.address, timeout=60) as connection:
        while wire.read_error(wire.call(connection, wire.find_coordinator(group))):
            pass  # Kafka makes its offsets topic when it is first asked
        for version in range(codec.highest(api) + 1):
            raw, values = ask(connection, api, version, request_of(api, version, group))
            if version >= FIRST_WITH_THROTTLE[api]:
                # the throttle time is first, behind a header with or without a byte of tagged fields
                at = 5 if codec.is_flexible(api + "Response", version) else 4
                assert struct.unpack_from(">i", raw, at) == (values["ThrottleTimeMs"],) == (0,)
            if api == "FindCoordinator":
                row = values["Coordinators"][0] if version > 3 else values
                assert (row["ErrorCode"], row["Port"]) == (0, server.address[1])
            elif api == "LeaveGroup" and version > 2:
                rows = [(row["MemberId"], row["GroupInstanceId"], row["ErrorCode"]) for row in values["Members"]]
                assert (values["ErrorCode"], rows) == (0, [("ghost", None, UNKNOWN_MEMBER_ID)])
            else:
                assert values["ErrorCode"] == UNKNOWN_MEMBER_ID
            if api == "SyncGroup":
                assert values["Assignment"] == b""


@pytest.mark.parametrize("api", APIS)
@pytest.mark.parametrize("beyond", [1, 100])
def test_a_version_that_is_not_served_closes_the_connection(server: ServerProcess, api: str, beyond: int) -> None:
    # only ApiVersions can be answered: the form of other answers in this version is not known
    with socket.create_connection(server.address, timeout=60) as connection:
        connection.sendall(raw_frame(header(codec.api_key(api), codec.highest(api) + beyond) + bytes(64)))
        assert closed_by(connection)
