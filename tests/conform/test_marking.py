"""The wrong field of an answer is found by the line of a story that went otherwise."""

from __future__ import annotations

import struct
from typing import Any

import pytest

from muster.conform.marking import marked
from muster.conform.player import kafka_codec as codec

JOINED = {
    "GenerationId": 3,
    "ProtocolType": "consumer",
    "ProtocolName": "range",
    "Leader": "a-1",
    "MemberId": "a-1",
    "Members": [{"MemberId": "a-1", "Metadata": b""}],
}
OFFSETS = {
    "Groups": [
        {
            "GroupId": "g",
            "Topics": [
                {
                    "Name": "t1",
                    "Partitions": [
                        {"PartitionIndex": 0, "CommittedOffset": 5, "Metadata": ""},
                        {"PartitionIndex": 1, "CommittedOffset": 7, "Metadata": ""},
                    ],
                }
            ],
        }
    ]
}


def answer(api: str, version: int, body: dict[str, Any]) -> bytes:
    head = struct.pack(">i", 1) + (b"\0" if codec.answer_begins_at(api, version) == 5 else b"")
    return head + codec.encode(api + "Response", version, body)


@pytest.mark.parametrize(
    ("api", "version", "body", "there", "here", "field"),
    [
        ("JoinGroup", 9, JOINED, "join ok generation=2 leader=A", "join ok generation=3 leader=A", "GenerationId"),
        ("JoinGroup", 9, JOINED, "join ok leader=A members=[A B]", "join ok leader=A members=[A]", "Members"),
        ("JoinGroup", 9, JOINED, "join ok leader=B members=[A]", "join ok leader=A members=[A]", "Leader"),
        ("JoinGroup", 9, {"ErrorCode": 25}, "join ok generation=1", "join UNKNOWN_MEMBER_ID", "ErrorCode"),
        ("Heartbeat", 4, {"ErrorCode": 0}, "heartbeat ILLEGAL_GENERATION", "heartbeat ok", "ErrorCode"),
        (
            "OffsetFetch",
            9,
            OFFSETS,
            "fetch ok t1/0=5 t1/1=6",
            "fetch ok t1/0=5 t1/1=7",
            "Groups[0].Topics[0].Partitions[1].CommittedOffset",
        ),
    ],
)
def test_the_field_that_is_shown(
    api: str, version: int, body: dict[str, Any], there: str, here: str, field: str
) -> None:
    found = marked(api, version, answer(api, version, body), f"    A <- {there}", f"    A <- {here}")
    assert found is not None
    assert found.field == field


def test_what_is_not_clear_is_not_marked() -> None:
    two = {"Topics": [{"Name": "t", "Partitions": [{"ErrorCode": 3}, {"ErrorCode": 3}]}]}
    raw = answer("OffsetCommit", 9, two)
    there, here = "    A <- commit t/0=ok t/1=ok", "    A <- commit t/0=UNKNOWN_TOPIC_OR_PARTITION t/1=ok"
    assert marked("OffsetCommit", 9, raw, there, here) is None
    assert marked("JoinGroup", 9, answer("JoinGroup", 9, JOINED), "    A waiting", "    A waiting") is None


def test_an_answer_that_cannot_be_read_is_marked_where_reading_ends() -> None:
    found = marked("JoinGroup", 9, answer("JoinGroup", 9, JOINED) + b"\0", "", "")
    assert found is not None
    assert found.field == "behind the last field"
