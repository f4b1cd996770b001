"""Every frame of real clients and tools against Kafka 4.3.0 decodes, and encodes to the same bytes."""

from __future__ import annotations

from pathlib import Path

import pytest

from muster.protocol import frames
from muster.protocol.api import api
from tests.protocol import golden
from tests.support import hub


@pytest.mark.parametrize("recording", golden.RECORDINGS, ids=lambda path: path.name.split(".")[0])
def test_each_recorded_frame_is_unchanged_after_decoding_and_encoding(recording: Path) -> None:
    count = 0
    for frame in golden.frames(recording):
        data, served = frame.data, api(frame.key)
        if frame.request:
            header, body = frames.decode_request_header(data, 0, len(data))
            assert (header.api_key, header.api_version) == (frame.key, frame.version)
            request = served.decode_request(frame.version, data, body)
            again = frames.request_frame(served, frame.version, header.correlation_id, request, header.client_id)
            assert again[4:] == data, served
            hub.decode_request(header, data, body, len(data))
        else:
            # A version of ApiVersions that the broker does not know is answered in version 0.
            correlation_id, body = frames.decode_response_header(served, frame.version, data, 0, len(data))
            response = served.decode_response(frame.version, data, body)
            parts = frames.response_frame(served, frame.version, correlation_id, response)
            whole = b"".join(parts)
            assert whole[4:] == data, served
            assert int.from_bytes(whole[:4], "big") == len(data)
        count += 1
    assert count > 20


def test_all_recordings_of_frames_exist() -> None:
    assert len(golden.RECORDINGS) == 11
