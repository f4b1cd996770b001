"""Connect's embedded protocol, compared with bytes of Kafka 4.3's own classes (connect-runtime)."""

from __future__ import annotations

import pytest

from muster.protocol.connect import (
    CONNECTOR,
    ConnectAssignment,
    ConnectorTasks,
    ConnectWorkerState,
    decode_assignment,
    decode_worker_state,
    encode_assignment,
    encode_worker_state,
)
from muster.protocol.message import MalformedMessage, UnrepresentableField

URL = "http://a:8083/"
ASSIGNED = [ConnectorTasks("c1", [CONNECTOR, 0, 3]), ConnectorTasks("c2", [CONNECTOR]), ConnectorTasks("x", [1])]
FULL = ConnectAssignment(0, "leader", URL, 9, ASSIGNED, [ConnectorTasks("r", [CONNECTOR, 2])], 300_000)
SMALL = ConnectAssignment(0, "leader", URL, 9, [ConnectorTasks("c1", [CONNECTOR])])

ASSIGNMENTS = {
    "eager": (
        0,
        ConnectAssignment(0, "leader", URL, 9, ASSIGNED),
        "0000000000066c6561646572000e687474703a2f2f613a383038332f0000000000000009000000030002633100000003ffffffff0000000000"
        "0000030002633200000001ffffffff0001780000000100000001",
    ),
    "eager, configurations differ": (
        0,
        ConnectAssignment(1, "leader", URL, 9),
        "0000000100066c6561646572000e687474703a2f2f613a383038332f000000000000000900000000",
    ),
    "compatible": (
        1,
        FULL,
        "0001000000066c6561646572000e687474703a2f2f613a383038332f0000000000000009000000030002633100000003ffffffff0000000000"
        "0000030002633200000001ffffffff00017800000001000000010000000100017200000002ffffffff00000002000493e0",
    ),
    "sessioned": (
        2,
        SMALL,
        "0002000000066c6561646572000e687474703a2f2f613a383038332f0000000000000009000000010002633100000001ffffffff"
        "0000000000000000",
    ),
}
STATE = "000e687474703a2f2f613a383038332f0000000000000007"
STATES = {
    "eager": (0, ConnectWorkerState(URL, 7), "0000" + STATE),
    "compatible": (1, ConnectWorkerState(URL, 7, FULL), "0001" + STATE + "0000006a" + ASSIGNMENTS["compatible"][2]),
    "sessioned": (2, ConnectWorkerState(URL, 7, SMALL), "0002" + STATE + "0000003c" + ASSIGNMENTS["sessioned"][2]),
    "nothing runs": (1, ConnectWorkerState(URL, 7), "0001" + STATE + "ffffffff"),
}


@pytest.mark.parametrize("name", ASSIGNMENTS)
def test_connect_assignments_have_the_bytes_of_kafka(name: str) -> None:
    version, assignment, hexadecimal = ASSIGNMENTS[name]
    assert encode_assignment(assignment, version).hex() == hexadecimal
    assert decode_assignment(bytes.fromhex(hexadecimal)) == (version, assignment)


@pytest.mark.parametrize("name", STATES)
def test_connect_worker_states_have_the_bytes_of_kafka(name: str) -> None:
    version, state, hexadecimal = STATES[name]
    assert encode_worker_state(state, version).hex() == hexadecimal
    assert decode_worker_state(bytes.fromhex(hexadecimal)) == (version, state)


def test_a_null_list_is_read_as_an_empty_assignment() -> None:
    data = bytes.fromhex("0001000000000000ffffffffffffffffffffffffffffffff00000000")
    assert decode_assignment(data) == (1, ConnectAssignment())


def test_remaining_bytes_of_connect_messages_are_ignored() -> None:
    data = bytes.fromhex(ASSIGNMENTS["compatible"][2])
    assert decode_assignment(data + b"more") == (1, FULL)


@pytest.mark.parametrize("name", STATES)
def test_each_truncated_connect_message_is_refused_with_the_field(name: str) -> None:
    data = bytes.fromhex(STATES[name][2])
    for size in range(len(data)):
        with pytest.raises(MalformedMessage, match=r"^Connect"):
            decode_worker_state(data[:size])


@pytest.mark.parametrize("count", ["7fffffff", "80000000", "fffffffe"])
def test_giant_and_negative_counts_are_refused_before_anything_is_made(count: str) -> None:
    data = bytes.fromhex("0001000000000000ffffffffffffffff" + count)
    with pytest.raises(MalformedMessage, match=r"ConnectAssignment\.assigned: .* cannot fit"):
        decode_assignment(data)


def test_invalid_text_in_connect_messages_is_refused() -> None:
    with pytest.raises(MalformedMessage, match=r"ConnectWorkerState\.url: not UTF-8"):
        decode_worker_state(bytes.fromhex("00000001ff0000000000000007"))
    with pytest.raises(MalformedMessage, match=r"ConnectWorkerState\.url: is null"):
        decode_worker_state(bytes.fromhex("0000ffff0000000000000007"))


def test_a_negative_connect_version_is_refused() -> None:
    with pytest.raises(MalformedMessage, match="version: is -1"):
        decode_assignment(b"\xff\xff")


def test_fields_missing_in_version_0_are_refused() -> None:
    with pytest.raises(UnrepresentableField):
        encode_assignment(FULL, 0)
    with pytest.raises(UnrepresentableField):
        encode_worker_state(ConnectWorkerState(URL, 7, FULL), 0)
    with pytest.raises(UnrepresentableField):
        encode_assignment(FULL, 3)
