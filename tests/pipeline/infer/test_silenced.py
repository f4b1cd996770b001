"""Members that were removed because the coordinator, or the network, was away."""

from __future__ import annotations

import pytest

from muster.pipeline.infer.silenced import Span, removal

FROM_MS, UNTIL_MS, SESSION_MS = 100_000, 220_000, 10_000


@pytest.mark.parametrize(
    ("is_frozen", "heard_ms", "gone_ms", "when_ms"),
    [
        (True, 219_900, 220_100, 220_000),  # it committed just before the coordinator ended its session
        (False, 219_900, 220_100, None),  # a coordinator that was started again ends no session at once
        (False, 99_000, 231_000, 230_000),  # the new session ended, and the member had not come back
        (False, 225_000, 231_000, None),  # it was back
        (True, 99_000, 260_000, None),
    ],
)
def test_a_silence_ends_sessions(is_frozen: bool, heard_ms: int, gone_ms: int, when_ms: int | None) -> None:
    silence = Span(FROM_MS, UNTIL_MS, is_frozen)
    assert removal([silence], 0, heard_ms, gone_ms, SESSION_MS) == when_ms
    assert removal([silence], FROM_MS + 1, heard_ms, gone_ms, SESSION_MS) is None  # a new member
    assert removal([silence], 0, heard_ms, gone_ms, UNTIL_MS) is None  # its session is longer
