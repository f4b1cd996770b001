"""Where the fields of an answer stand, and where reading ends."""

from __future__ import annotations

import struct

from muster.conform.player import kafka_codec as codec
from muster.conform.player import spans

BODY = {
    "ErrorCode": 0,
    "GenerationId": 3,
    "ProtocolType": "consumer",
    "ProtocolName": "range",
    "Leader": "a",
    "MemberId": "a",
    "Members": [{"MemberId": "a", "Metadata": b"x"}, {"MemberId": "b", "Metadata": b""}],
}


def frame(version: int = 9) -> bytes:
    head = struct.pack(">i", 5) + (b"\0" if version >= 6 else b"")
    return head + codec.encode("JoinGroupResponse", version, BODY)


def test_each_field_has_its_bytes() -> None:
    raw = frame()
    reading = spans.read("JoinGroup", 9, raw)
    assert reading.fault is None
    member = reading.span("Members[1].MemberId")
    assert member is not None
    assert (raw[member.start : member.end], member.value) == (b"\x02b", "b")
    whole = reading.span("Members[0]")
    assert whole is not None
    assert raw[whole.start : whole.end] == b"\x02a\0\x02x\0"


def test_the_bytes_of_fields_follow_each_other() -> None:
    raw = frame(5)
    top = [one for one in spans.read("JoinGroup", 5, raw).spans if "[" not in one.path]
    assert [one.start for one in top] == [0, *[one.end for one in top[:-1]]]
    assert top[-1].end == len(raw)


def test_elements_without_fields_have_numbers() -> None:
    raw = struct.pack(">i", 5) + codec.encode("SaslHandshakeResponse", 0, {"Mechanisms": ["PLAIN", "GSSAPI"]})
    found = spans.read("SaslHandshake", 0, raw).span("Mechanisms[1]")
    assert found is not None
    assert found.value == "GSSAPI"


def test_a_byte_too_many_is_the_fault() -> None:
    reading = spans.read("JoinGroup", 9, frame() + b"\x07")
    assert reading.body is None
    assert reading.fault is not None
    assert (reading.fault.start, reading.fault.end) == (len(frame()), len(frame()) + 1)
    assert reading.reason == "1 bytes are left over behind the last field of JoinGroupResponse v9"


def test_an_answer_that_ends_too_early_marks_the_field_that_is_not_whole() -> None:
    reading = spans.read("JoinGroup", 5, frame(5)[:-3])
    assert reading.body is None
    assert reading.fault is not None
    assert reading.fault.path == "Members[1].Metadata"


def test_null_where_it_may_not_be_is_the_fault() -> None:
    raw = bytearray(frame(5))
    at = spans.read("JoinGroup", 5, bytes(raw)).span("Leader")
    assert at is not None
    raw[at.start : at.end] = b"\xff\xff"
    reading = spans.read("JoinGroup", 5, bytes(raw))
    assert reading.fault is not None
    assert (reading.fault.path, reading.reason) == ("Leader", "Leader may not be null in version 5")


def test_tagged_fields_in_the_header_are_the_fault() -> None:
    raw = bytearray(frame())
    raw[4] = 1
    reading = spans.read("JoinGroup", 9, bytes(raw))
    assert reading.fault is not None
    assert reading.fault.path == "header.tags"


def test_an_answer_shorter_than_its_header() -> None:
    assert spans.read("JoinGroup", 9, b"\0\0").body is None
