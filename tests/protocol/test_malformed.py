"""Any bytes give a message or a MalformedMessage with a path, never another exception."""

from __future__ import annotations

import random
import tracemalloc
from contextlib import suppress

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from muster.protocol import consumer, frames
from muster.protocol.api import Api, all_apis, api_named
from muster.protocol.message import MalformedMessage
from muster.protocol.messages.heartbeat import HeartbeatRequest
from muster.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from muster.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from muster.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
)
from muster.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from muster.protocol.records import OFFSETS, UnknownRecord, decode_metadata
from muster.protocol.wire import COPIED_BYTES, MAX_ELEMENTS, MAX_TAGS, TooMany
from tests.protocol.random_messages import draw, layouts

LAYOUTS = layouts()


def decode_or_refuse(served: Api, version: int, data: bytes) -> None:
    """Fails on any exception but MalformedMessage, and on a MalformedMessage that does not name the path."""
    try:
        served.decode_request(version, data)
    except MalformedMessage as error:
        refused = error
    else:
        return
    assert refused.path.startswith(served.name + "Request")
    assert refused.reason


@pytest.mark.parametrize("served", all_apis(), ids=lambda a: a.name)
@settings(max_examples=8, deadline=None, derandomize=True, database=None)
@given(seed=st.integers(0, 2**32))
def test_damaged_requests_are_refused_or_decoded(served: Api, seed: int) -> None:
    rng = random.Random(seed)
    version = rng.randrange(served.min_version, served.max_version + 1)
    data = served.encode_request(version, draw(rng, LAYOUTS[served.name + "Request"], version))
    if not data:
        return
    for _ in range(10):
        damaged = bytearray(data)
        for _ in range(rng.choice((1, 1, 2, 5))):
            damaged[rng.randrange(len(data))] = rng.choice((0, 1, 0x7F, 0x80, 0xFF, rng.randrange(256)))
        decode_or_refuse(served, version, bytes(damaged))
        decode_or_refuse(served, version, rng.randbytes(rng.randrange(40)))


@pytest.mark.parametrize("served", all_apis(), ids=lambda a: a.name)
def test_every_truncation_is_refused_even_with_another_frame_behind_it(served: Api) -> None:
    rng = random.Random(served.key)
    for version in range(served.min_version, served.max_version + 1):
        data = served.encode_request(version, draw(rng, LAYOUTS[served.name + "Request"], version))
        ends = range(len(data)) if len(data) < 60 else sorted(rng.sample(range(len(data)), 60))
        for end in ends:
            with pytest.raises(MalformedMessage):
                served.decode_request(version, data, 0, end)
            with pytest.raises(MalformedMessage):
                served.decode_request(version, data[:end])


JOIN = JoinGroupRequest(
    group_id="group",
    session_timeout_ms=10_000,
    member_id="member",
    protocol_type="consumer",
    protocols=[JoinGroupRequestProtocol("range", b"abc"), JoinGroupRequestProtocol("sticky", b"")],
)


def join(version: int, at: bytes, instead: bytes) -> str:
    """The error for a JoinGroup in which some bytes were replaced: "path: reason"."""
    served = api_named("JoinGroup")
    data = served.encode_request(version, JOIN)
    assert data.count(at) == 1
    with pytest.raises(MalformedMessage) as refused:
        served.decode_request(version, data.replace(at, instead))
    return str(refused.value)


def test_the_error_of_a_malformed_message_names_the_field() -> None:
    assert join(9, b"\x07sticky", b"\x07st\xffcky") == (
        "JoinGroupRequest.protocols[1].name: not UTF-8: invalid start byte at byte 2"
    )
    assert join(5, b"\x00\x06sticky", b"\x00\x06st\xffcky").startswith("JoinGroupRequest.protocols[1].name: not UTF-8")
    assert join(9, b"\x07sticky", b"\x00") == "JoinGroupRequest.protocols[1].name: is null"
    assert join(5, b"\x00\x06sticky", b"\xff\xff") == "JoinGroupRequest.protocols[1].name: is null"
    assert join(5, b"\x00\x06sticky", b"\xff\xfe") == "JoinGroupRequest.protocols[1].name: negative length -2"
    assert join(5, b"\x00\x06sticky", b"\x7f\xff").startswith(
        "JoinGroupRequest.protocols[1].name: truncated: 32767 bytes needed"
    )
    assert join(5, b"\x00\x00\x00\x02\x00\x05range", b"\x7f\xff\xff\xff\x00\x05range").startswith(
        "JoinGroupRequest.protocols: 2147483647 elements cannot fit in the "
    )
    assert join(5, b"\x00\x00\x00\x02\x00\x05range", b"\xff\xff\xff\xff\x00\x05range") == (
        "JoinGroupRequest.protocols: is null"
    )
    assert join(5, b"\x00\x00\x00\x02\x00\x05range", b"\xff\xff\xff\xfe\x00\x05range") == (
        "JoinGroupRequest.protocols: negative number of elements -2"
    )
    assert join(9, b"\x03\x06range", b"\xff\xff\xff\xff\x0f\x06range").startswith("JoinGroupRequest.protocols: ")
    assert join(9, b"\x07sticky", b"\x80\x80\x80\x80\x80\x01") == (
        "JoinGroupRequest.protocols[1].name: varint longer than 5 bytes"
    )


def test_a_string_longer_than_kafkas_limit_is_refused() -> None:
    served = api_named("Heartbeat")
    data = served.encode_request(4, HeartbeatRequest(group_id="g" * 32767))
    assert served.decode_request(4, data).group_id == "g" * 32767
    longer = b"\x81\x80\x02" + b"g" * 32768 + data[3 + 32767 :]
    with pytest.raises(MalformedMessage, match="longer than 32767"):
        served.decode_request(4, longer)


def test_giant_counts_are_refused_without_allocation() -> None:
    served = api_named("Metadata")
    data = b"\xff\xff\xff\xff\x07" + bytes(100)
    tracemalloc.start()
    try:
        with pytest.raises(MalformedMessage, match="elements cannot fit"):
            served.decode_request(12, data)
        assert tracemalloc.get_traced_memory()[1] < 1_000_000
    finally:
        tracemalloc.stop()


def test_a_request_with_too_many_elements_is_refused() -> None:
    """The bytes would be accepted, but to make the objects would take seconds."""
    served = api_named("Metadata")
    most = MetadataRequest(topics=[MetadataRequestTopic(name="")] * MAX_ELEMENTS)
    data = served.encode_request(1, most)
    assert len(served.decode_request(1, data).topics or ()) == MAX_ELEMENTS
    with pytest.raises(MalformedMessage, match="topics: with 250001 more elements the request has more than 250000"):
        served.decode_request(1, (MAX_ELEMENTS + 1).to_bytes(4, "big") + data[4:] + bytes(2))


def test_the_elements_of_all_arrays_of_a_request_count_together() -> None:
    """Structs in structs, texts, numbers and tagged fields all count."""
    served = api_named("OffsetFetch")
    topics = [OffsetFetchRequestTopics(name="t", partition_indexes=[*range(48)])] * 10
    groups = [OffsetFetchRequestGroup(group_id="g", topics=topics)] * 3
    data = served.encode_request(9, OffsetFetchRequest(groups=groups))
    decode = served.request_decoder(9)
    whole = 3 + 3 * 10 + 3 * 10 * 48
    assert decode(data, 0, len(data), whole) == served.decode_request(9, data)
    with pytest.raises(TooMany):
        decode(data, 0, len(data), whole - 1)


def test_unknown_tagged_fields_count_as_elements() -> None:
    served = api_named("DeleteRecords")
    partition = bytes(4 + 8) + b"\0"
    with_two_tags = b"\x02t" + b"\x02" + partition + b"\x02\x05\x00\x07\x00"
    plain = b"\x02t" + b"\x02" + partition + b"\0"
    data = b"\x03" + with_two_tags + plain + bytes(4) + b"\0"
    decode = served.request_decoder(2)
    assert len(decode(data, 0, len(data), 6).topics) == 2
    with pytest.raises(TooMany):
        decode(data, 0, len(data), 5)


def test_a_struct_with_too_many_tagged_fields_is_refused() -> None:
    served = api_named("Heartbeat")
    body = served.encode_request(4, HEARTBEAT)[:-1]

    def with_tags(count: int) -> bytes:
        size = bytes((count,)) if count < 128 else bytes((count & 127 | 128, count >> 7))
        return body + size + b"\x09\x00" * count

    assert served.decode_request(4, with_tags(MAX_TAGS)) == HEARTBEAT
    with pytest.raises(MalformedMessage, match="128 tagged fields are more than 127"):
        served.decode_request(4, with_tags(MAX_TAGS + 1))


# As Kafka 4.3 did with these bytes (its RequestContext.parseRequest).
HEARTBEAT = HeartbeatRequest(group_id="g", generation_id=3, member_id="m")
ACCEPTED = {
    "bytes after the message": b"\x00\x01\x02\x03",
    "unknown tags in order": b"\x02\x05\x01\x09\x07\x00",
    "unknown tags out of order": b"\x02\x07\x00\x05\x01\x09",
    "the same tag twice": b"\x02\x07\x00\x07\x01\x09",
    "a varint of two bytes for 0": b"\x80\x00",
}


@pytest.mark.parametrize("what", ACCEPTED)
def test_messages_that_kafka_accepts_are_accepted(what: str) -> None:
    served = api_named("Heartbeat")
    data = served.encode_request(4, HEARTBEAT)[:-1] + ACCEPTED[what]
    assert served.decode_request(4, data) == HEARTBEAT


def test_a_tag_larger_than_the_message_is_refused() -> None:
    served = api_named("Heartbeat")
    data = served.encode_request(4, HEARTBEAT)[:-1] + b"\x01\x07\x32"
    with pytest.raises(MalformedMessage, match="<tag 7>: truncated: 50 bytes needed, 0 left"):
        served.decode_request(4, data)


def test_a_known_tag_must_fill_its_size() -> None:
    served = api_named("Fetch")
    message = draw(random.Random(1), LAYOUTS["FetchRequest"], 17)
    message.cluster_id = "cluster"
    message.replica_state = None
    data = served.encode_request(17, message)
    assert data.count(b"\x08\x08cluster") == 1
    with pytest.raises(MalformedMessage, match=r"FetchRequest\.cluster_id: 1 bytes left over"):
        served.decode_request(17, data.replace(b"\x08\x08cluster", b"\x08\x07cluster"))


@settings(max_examples=200, deadline=None, derandomize=True, database=None)
@given(data=st.binary(max_size=60))
def test_arbitrary_bytes_are_refused_or_decoded(data: bytes) -> None:
    for decode in (
        lambda: frames.decode_request_header(data, 0, len(data)),
        lambda: consumer.decode_subscription(data),
        lambda: consumer.decode_assignment(data),
        lambda: OFFSETS.decode_key(data),
        lambda: OFFSETS.decode_value(1, data),
        lambda: OFFSETS.decode_value(2, data),
        lambda: OFFSETS.decode_value(5, data),
        lambda: decode_metadata(data),
    ):
        with suppress(MalformedMessage, UnknownRecord, frames.UnknownRequest):
            decode()


def test_large_records_of_a_request_are_not_copied() -> None:
    served = api_named("Produce")
    for size in (COPIED_BYTES, COPIED_BYTES + 1):
        rows = [PartitionProduceData(0, bytes(size)), PartitionProduceData(1, None)]
        for version in (3, 9):
            sent = ProduceRequest(topic_data=[TopicProduceData("t", partition_data=rows)])
            data = served.encode_request(version, sent)
            read = served.decode_request(version, data)
            assert read == sent
            records = read.topic_data[0].partition_data[0].records
            assert isinstance(records, memoryview) == (size > COPIED_BYTES)
            with pytest.raises(MalformedMessage):
                served.decode_request(version, data[:-40])
