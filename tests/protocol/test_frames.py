"""Frames, headers and the splitter."""

from __future__ import annotations

import struct
import tracemalloc

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from muster.protocol import frames
from muster.protocol.api import ApiKey, all_apis, api, api_named
from muster.protocol.frames import FrameSplitter, InvalidFrameSize, UnknownApiKey, UnknownApiVersion
from muster.protocol.message import MalformedMessage
from muster.protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from muster.protocol.messages.fetch import FetchableTopicResponse, FetchResponse, PartitionData
from muster.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from muster.protocol.messages.join_group import JoinGroupResponse, JoinGroupResponseMember

HEARTBEAT = api_named("Heartbeat")


@pytest.mark.parametrize("version", range(5))
@pytest.mark.parametrize("client_id", [None, "", "client", "gr\u00fcppe"])
def test_a_request_frame_is_read_again(version: int, client_id: str | None) -> None:
    request = HeartbeatRequest("group", 3, "member")
    data = frames.request_frame(HEARTBEAT, version, 77, request, client_id)
    assert int.from_bytes(data[:4], "big") == len(data) - 4
    header, body = frames.decode_request_header(data, 4, len(data))
    assert (header.api_key, header.api_version, header.correlation_id) == (ApiKey.HEARTBEAT, version, 77)
    assert header.client_id == client_id
    assert HEARTBEAT.decode_request(version, data, body) == request


def test_tagged_fields_of_a_header_are_skipped() -> None:
    head = struct.pack(">hhihc", 12, 4, 1, 1, b"c")
    body = HEARTBEAT.encode_request(4, HeartbeatRequest("g"))
    data = head + b"\x02\x00\x03abc\x05\x00" + body
    header, start = frames.decode_request_header(data, 0, len(data))
    assert header.client_id == "c"
    assert data[start:] == body


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b"", "truncated: at least 10 bytes needed, 0 left"),
        (b"\0" * 9, "truncated: at least 10 bytes needed, 9 left"),
        (struct.pack(">hhih", 12, 4, 1, 5) + b"abc", "client_id: truncated: 5 bytes needed, 3 left"),
        (struct.pack(">hhih", 12, 4, 1, -2), "client_id: negative length -2"),
        (struct.pack(">hhih", 12, 4, 1, 1) + b"\xff", "client_id: not UTF-8"),
        (struct.pack(">hhih", 12, 4, 1, -1), "<tagged fields>: cannot be read"),
        (struct.pack(">hhih", 12, 4, 1, -1) + b"\x01\x00\x05a", "<tagged fields>: cannot be read"),
        (struct.pack(">hhih", 12, 4, 1, -1) + b"\xff\xff\xff\xff\x0f", "<tagged fields>: cannot be read"),
    ],
)
def test_malformed_headers_are_refused(data: bytes, said: str) -> None:
    with pytest.raises(MalformedMessage) as refused:
        frames.decode_request_header(data + b"next frame", 0, len(data))
    assert said in str(refused.value)


def test_an_unknown_api_key_carries_the_header() -> None:
    data = struct.pack(">hhih", 999, 0, 5, 1) + b"c"
    with pytest.raises(UnknownApiKey, match="unknown API key 999") as refused:
        frames.decode_request_header(data, 0, len(data))
    assert refused.value.header.correlation_id == 5
    assert refused.value.header.client_id == "c"


@pytest.mark.parametrize("version", [-1, 6, 32767])
def test_an_unknown_version_of_api_versions_carries_the_correlation_id(version: int) -> None:
    data = struct.pack(">hhih", ApiKey.API_VERSIONS, version, 42, 1) + b"c\x00anything"
    with pytest.raises(UnknownApiVersion, match=r"ApiVersions has no version .* \(known: 0 to 5\)") as refused:
        frames.decode_request_header(data, 0, len(data))
    header = refused.value.header
    assert (header.api_key, header.api_version, header.correlation_id) == (ApiKey.API_VERSIONS, version, 42)


def test_the_answer_to_api_versions_never_has_a_flexible_header() -> None:
    served = api_named("ApiVersions")
    for version in range(6):
        (data,) = frames.response_frame(served, version, 9, ApiVersionsResponse(error_code=35))
        assert data[4:10] == b"\x00\x00\x00\x09\x00\x23"
        assert served.response_header_version(version) == 0
    assert served.request_header_version(3) == 2


@pytest.mark.parametrize("version", range(5))
def test_a_response_frame_is_read_again(version: int) -> None:
    response = HeartbeatResponse(error_code=27)
    data = b"".join(frames.response_frame(HEARTBEAT, version, -5, response))
    assert int.from_bytes(data[:4], "big") == len(data) - 4
    correlation_id, body = frames.decode_response_header(HEARTBEAT, version, data, 4, len(data))
    assert correlation_id == -5
    assert HEARTBEAT.decode_response(version, data, body) == response


def test_a_large_response_is_not_copied_behind_its_header() -> None:
    members = [JoinGroupResponseMember(f"member-{i}", None, bytes(200)) for i in range(1000)]
    parts = frames.response_frame(api_named("JoinGroup"), 9, 1, JoinGroupResponse(members=members))
    assert len(parts) == 2
    assert int.from_bytes(parts[0][:4], "big") == sum(map(len, parts)) - 4


@pytest.mark.parametrize("version", [4, 12, 18])
def test_record_batches_are_sent_without_a_copy(version: int) -> None:
    records = memoryview(bytes(range(256)) * 100)
    small = b"small"
    response = FetchResponse(
        responses=[
            FetchableTopicResponse(
                topic="t" if version < 13 else "",
                topic_id=bytes(range(16)) if version > 12 else bytes(16),
                partitions=[
                    PartitionData(partition_index=0, records=records),
                    PartitionData(partition_index=1, records=small),
                    PartitionData(partition_index=2, records=records),
                    PartitionData(partition_index=3, records=None),
                ],
            )
        ]
    )
    served = api_named("Fetch")
    parts = frames.response_frame(served, version, 1, response)
    assert [part is records for part in parts] == [False, True, False, True, False]
    data = b"".join(parts)
    assert int.from_bytes(data[:4], "big") == len(data) - 4
    _, body = frames.decode_response_header(served, version, data, 4, len(data))
    assert served.decode_response(version, data, body) == response
    assert served.encode_response(version, response) == data[body:]


def test_header_versions_follow_the_first_flexible_version() -> None:
    for served in all_apis():
        for version in range(served.min_version, served.max_version + 1):
            flexible = served.first_flexible is not None and version >= served.first_flexible
            assert served.request_header_version(version) == (2 if flexible else 1)
            if served.key != ApiKey.API_VERSIONS:
                assert served.response_header_version(version) == int(flexible)


# ---- the splitter


def contents(found: list[frames.Frame]) -> list[bytes]:
    return [data[start:end] for data, start, end in found]


@settings(max_examples=60, deadline=None)
@given(bodies=st.lists(st.binary(max_size=20), max_size=6), data=st.data())
def test_frames_are_found_however_the_stream_is_divided(bodies: list[bytes], data: st.DataObject) -> None:
    stream = b"".join(struct.pack(">i", len(body)) + body for body in bodies)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(stream)), max_size=8)))
    splitter = FrameSplitter()
    found = []
    for start, end in zip([0, *cuts], [*cuts, len(stream)], strict=True):
        found += contents(splitter.feed(stream[start:end]))
    assert found == bodies
    assert splitter.buffered == 0


def test_a_frame_within_one_chunk_is_not_copied() -> None:
    chunk = struct.pack(">i", 3) + b"abc" + struct.pack(">i", 0) + struct.pack(">i", 9) + b"half"
    splitter = FrameSplitter()
    assert [(data is chunk, start, end) for data, start, end in splitter.feed(chunk)] == [(True, 4, 7), (True, 11, 11)]
    assert splitter.buffered == 8
    assert splitter.awaited == 13


@pytest.mark.parametrize(
    ("size", "said"), [(-1, "is negative"), (101, "is larger than 100"), (0x7FFFFFFF, "is larger")]
)
def test_bad_sizes_are_refused_before_the_content_arrives(size: int, said: str) -> None:
    splitter = FrameSplitter(limit=100)
    good = struct.pack(">i", 3) + b"abc"
    with pytest.raises(InvalidFrameSize, match=said) as refused:
        splitter.feed(good + struct.pack(">i", size))
    assert refused.value.size == size
    assert contents(refused.value.frames) == [b"abc"]


def test_a_frame_in_many_chunks_is_held_once() -> None:
    body = bytes(8_000_000)
    stream = struct.pack(">i", len(body)) + body
    splitter = FrameSplitter()
    tracemalloc.start()
    try:
        for start in range(0, len(stream), 65_536):
            found = splitter.feed(stream[start : start + 65_536])
        assert contents(found[:1]) == [body]
        del found
        assert tracemalloc.get_traced_memory()[1] < 2.4 * len(body)  # `contents` makes a copy
    finally:
        tracemalloc.stop()


def test_a_peer_may_send_byte_by_byte() -> None:
    splitter = FrameSplitter()
    body = bytes(range(256)) * 50
    stream = struct.pack(">i", len(body)) + body
    tracemalloc.start()
    try:
        for i in range(len(stream) - 1):
            assert splitter.feed(stream[i : i + 1]) == []
        assert tracemalloc.get_traced_memory()[1] < 2 * len(body) + 10_000
    finally:
        tracemalloc.stop()
    assert splitter.buffered == len(stream) - 1
    assert contents(splitter.feed(stream[-1:])) == [body]


def test_the_held_bytes_of_a_frame_can_be_released() -> None:
    tracemalloc.start()
    try:
        splitter = FrameSplitter()
        splitter.feed(struct.pack(">i", 8 << 20) + bytes(7 << 20))
        splitter.clear()
        assert (splitter.buffered, splitter.awaited) == (0, 0)
        assert tracemalloc.get_traced_memory()[0] < 1 << 20
    finally:
        tracemalloc.stop()


def test_the_largest_allowed_frame_passes() -> None:
    assert contents(FrameSplitter(limit=4).feed(struct.pack(">i", 4) + b"abcd")) == [b"abcd"]


def test_a_size_cut_in_two_is_checked_when_whole() -> None:
    splitter = FrameSplitter(limit=100)
    assert splitter.feed(b"\x7f\xff") == []
    with pytest.raises(InvalidFrameSize):
        splitter.feed(b"\xff\xff")


def test_every_api_has_its_key() -> None:
    assert api(ApiKey.API_VERSIONS).name == "ApiVersions"
    assert ApiVersionsRequest().client_software_name == ""
    for served in all_apis():
        constant = "".join(f"_{c}" if c.isupper() else c for c in served.name).lstrip("_").upper()
        assert getattr(ApiKey, constant) == served.key
