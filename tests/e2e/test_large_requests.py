"""Requests of the largest allowed size are answered, and other clients are served meanwhile."""

from __future__ import annotations

import socket
import struct
import threading

import pytest

from tests.support import wire
from tests.support.servers import ServerProcess

INVALID_REQUEST = 42
GROUP_ID_NOT_FOUND = 69
MANY = 100_000

NAMES = wire.array(wire.string(f"g{i}") for i in range(MANY))
LARGE = {
    "DeleteGroups": wire.Request(42, 0, NAMES),
    "DescribeGroups, one again and again": wire.Request(15, 0, wire.array([wire.string("one")] * MANY)),
    "DescribeConfigs, one broker again and again": wire.Request(
        32, 1, wire.array([struct.pack(">b", 4) + wire.string("1") + struct.pack(">i", -1)] * 2_000) + b"\1"
    ),
    "Metadata": wire.Request(3, 4, NAMES + b"\0"),
}


@pytest.mark.parametrize("what", list(LARGE))
def test_other_clients_are_served_during_a_large_request(server: ServerProcess, what: str) -> None:
    """The test counts answers: if the request were handled in one piece, no other client would be answered
    meanwhile.
    """
    with (
        socket.create_connection(server.address, timeout=60) as large,
        socket.create_connection(server.address, timeout=60) as small,
    ):
        answers: list[wire.Reader] = []
        thread = threading.Thread(target=lambda: answers.append(wire.call(large, LARGE[what])))
        thread.start()
        between = 0
        while thread.is_alive():
            assert wire.call(small, wire.api_versions()).number("h") == 0
            between += 1
        thread.join()
    assert between > 5
    reader = answers[0]
    if what == "DeleteGroups":
        reader.number("i")
        assert reader.number("i") == MANY
        assert reader.string().startswith("g")  # in the order of their coordinators
        assert reader.number("h") == GROUP_ID_NOT_FOUND
    elif what.startswith("DescribeGroups"):
        assert reader.number("i") == MANY
    elif what.startswith("DescribeConfigs"):
        reader.number("i")
        assert reader.number("i") == 2_000
        assert len(reader.payload) < 40 << 20
        assert INVALID_REQUEST.to_bytes(2, "big") + b"\0" in reader.payload[-200:]
