"""The table of APIs: look-ups, versions, import at first use."""

from __future__ import annotations

import subprocess
import sys

import pytest

from muster.protocol.api import ApiKey, UnknownApi, UnsupportedVersion, all_apis, api, api_named
from muster.protocol.messages.fetch import FetchableTopicResponse, FetchResponse, PartitionData
from muster.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from muster.protocol.messages.metadata import MetadataResponse, MetadataResponsePartition, MetadataResponseTopic


def test_apis_are_found_by_key_and_by_name() -> None:
    assert api(11) is api_named("JoinGroup")
    assert api(ApiKey.PRODUCE).name == "Produce"
    assert [a.key for a in all_apis()] == sorted(a.key for a in all_apis())
    assert "JoinGroup" in repr(api(11))


def test_unknown_apis_are_refused() -> None:
    with pytest.raises(UnknownApi, match="unknown API 4"):
        api(4)  # LeaderAndIsr: only brokers send it
    with pytest.raises(UnknownApi, match="unknown API 'LeaderAndIsr'"):
        api_named("LeaderAndIsr")


@pytest.mark.parametrize("version", [-1, 5])
def test_unknown_versions_are_refused(version: int) -> None:
    served = api_named("Heartbeat")
    for call in (
        lambda: served.decode_request(version, b""),
        lambda: served.decode_response(version, b""),
        lambda: served.encode_request(version, HeartbeatRequest()),
        lambda: served.encode_response(version, HeartbeatResponse()),
    ):
        with pytest.raises(UnsupportedVersion, match=r"Heartbeat has no version -?\d \(known: 0 to 4\)"):
            call()


def test_messages_are_imported_at_first_use() -> None:
    program = (
        "import sys\n"
        "from muster.protocol import api, frames\n"
        "loaded = [m for m in sys.modules if m.startswith('muster.protocol.messages.')]\n"
        "assert set(loaded) <= {'muster.protocol.messages.table', 'muster.protocol.messages.error_codes'}, loaded\n"
        "api.api(12).decode_response(0, b'\\0\\0')\n"
        "assert 'muster.protocol.messages.heartbeat' in sys.modules\n"
        "assert 'muster.protocol.messages.fetch' not in sys.modules\n"
    )
    subprocess.run([sys.executable, "-c", program], check=True, timeout=60)


def test_the_pieces_of_a_large_response_have_the_same_bytes() -> None:
    rows = [MetadataResponseTopic(name=f"topic-{i}", partitions=[MetadataResponsePartition()]) for i in range(3_000)]
    served = api_named("Metadata")
    pieces = served.encode_response_parts(12, MetadataResponse(topics=rows))
    assert 3 < len(pieces) < 20
    whole = served.encode_response(12, MetadataResponse(topics=rows))
    assert b"".join(pieces) == whole
    assert served.decode_response(12, whole).topics == rows
    assert isinstance(served.response_encoder(12)(MetadataResponse(topics=rows[:10])), bytes)


def test_large_records_of_an_answer_are_not_copied() -> None:
    large = bytes(10_000)
    partitions = [PartitionData(i, records=large if i % 1_000 == 0 else b"few") for i in range(4_000)]
    served = api_named("Fetch")
    response = FetchResponse(responses=[FetchableTopicResponse("t", partitions=partitions)])
    pieces = served.encode_response_parts(12, response)
    assert len(pieces) < 40
    assert sum(piece is large for piece in pieces) == 4
    assert served.decode_response(12, b"".join(pieces)) == response
