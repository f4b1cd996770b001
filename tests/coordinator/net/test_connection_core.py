"""The rules of a connection: its states, the events that each state allows, and how much it reads."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from muster.coordinator.net import connection_core
from muster.coordinator.net.connection_core import (
    ANSWERED,
    ANSWERING,
    AUTHENTICATING,
    AUTHENTICATION,
    CLOSE,
    CLOSED,
    CLOSING,
    HANDSHAKE,
    HANDSHAKING,
    INPUT,
    INPUT_HIGH_BYTES,
    LOST,
    MEMORY,
    MUTE,
    MUTED,
    NODE,
    OPENED,
    PEER,
    READY,
    REQUEST,
    REST,
    SMALL_BYTES,
    STATES,
    TRANSITIONS,
    VERIFYING,
    WAITING,
    ConnectionCore,
    IllegalTransition,
)
from muster.protocol.frames import InvalidFrameSize

MAX_BYTES = 1_000_000
WAYS: dict[str, tuple[str, ...]] = {
    WAITING: (),
    HANDSHAKING: (HANDSHAKE,),
    AUTHENTICATING: (AUTHENTICATION,),
    VERIFYING: (AUTHENTICATION, REQUEST),
    READY: (OPENED,),
    ANSWERING: (OPENED, REQUEST),
    MUTED: (OPENED, MUTE),
    CLOSING: (OPENED, CLOSE),
    CLOSED: (OPENED, LOST),
}
"""The events that lead to each state."""


def frame(content: bytes) -> bytes:
    return len(content).to_bytes(4, "big") + content


def core_in(state: str) -> ConnectionCore:
    core = ConnectionCore(MAX_BYTES)
    for event in WAYS[state]:
        if event is REQUEST:
            core.receive_data(frame(b"first"))
            assert core.next_request() is not None
        else:
            core.happens(event)
    assert core.state is state
    return core


def next_content(core: ConnectionCore) -> bytes | None:
    request = core.next_request()
    return None if request is None else request[0][request[1] : request[2]]


class TestStates:
    def test_every_connection_state_can_be_reached_and_closed(self) -> None:
        assert set(WAYS) == set(STATES)
        for state in STATES[:-1]:
            assert TRANSITIONS[CLOSE][state] is CLOSING
            assert TRANSITIONS[LOST][state] is CLOSED
        assert [event for event in TRANSITIONS if CLOSED in TRANSITIONS[event]] == [ANSWERED]

    @pytest.mark.parametrize("event", TRANSITIONS)
    @pytest.mark.parametrize("state", STATES)
    def test_an_event_without_a_transition_raises_and_changes_nothing(self, state: str, event: str) -> None:
        core = core_in(state)
        target = TRANSITIONS[event].get(state)
        if target is None:
            with pytest.raises(IllegalTransition, match=f"a connection is {state}"):
                core.happens(event)
            assert core.state is state
        else:
            core.happens(event)
            assert core.state is target

    @pytest.mark.parametrize("state", STATES)
    def test_an_unexpected_answer_raises_an_error_until_the_end(self, state: str) -> None:
        core = core_in(state)
        if state in TRANSITIONS[ANSWERED]:
            core.answered(b"answer")
            assert core.data_to_send() == ([b"answer"] if state in (ANSWERING, VERIFYING) else [])
        else:
            with pytest.raises(IllegalTransition):
                core.answered(b"answer")
            assert core.data_to_send() == []

    @pytest.mark.parametrize("state", STATES)
    def test_a_request_is_returned_only_in_states_that_handle_requests(self, state: str) -> None:
        core = core_in(state)
        core.receive_data(frame(b"next"))
        assert next_content(core) == (b"next" if state in TRANSITIONS[REQUEST] else None)
        assert core.is_answering == (core.state in (ANSWERING, VERIFYING, MUTED))

    @pytest.mark.parametrize("end", [ConnectionCore.close, ConnectionCore.abort, ConnectionCore.lost])
    def test_a_closed_connection_core_takes_and_gives_nothing(self, end: Callable[[ConnectionCore], None]) -> None:
        core = core_in(ANSWERING)
        core.receive_data(frame(b"waits") + b"\0")
        end(core)
        core.answered(b"late")
        core.receive_data(frame(b"more"))
        assert core.has_ended
        assert core.next_request() is None
        assert not core.has_requests
        assert core.data_to_send() == []
        assert core.bytes_to_count()[2] == 0
        core.close()

    def test_earlier_answers_are_sent_at_a_close_but_not_at_an_abort(self) -> None:
        for end, sent in (ConnectionCore.close, [b"one", b"two"]), (ConnectionCore.abort, []):
            core = core_in(ANSWERING)
            core.answered([b"one", b"two"])
            assert core.output_bytes == 6
            end(core)
            assert core.data_to_send() == sent
            assert core.output_bytes == 0

    @pytest.mark.parametrize("most_bytes", [1, 2, 3, 4, 5, 6, 7, 8])
    def test_a_large_answer_is_returned_in_pieces(self, most_bytes: int) -> None:
        core = core_in(ANSWERING)
        core.receive_data(frame(b"next"))
        core.answered([b"abc", b"", memoryview(b"def"), b"g"])
        sent = b""
        while core.output_bytes:
            left = core.output_bytes
            piece = b"".join(core.data_to_send(most_bytes))
            assert len(piece) == min(most_bytes, left)
            assert core.output_bytes == left - len(piece)
            assert bool(core.waits_for & REST) == bool(core.output_bytes)
            assert core.has_requests != bool(core.output_bytes), "the next request waits"
            sent += piece
        assert sent == b"abcdefg"
        assert core.data_to_send(most_bytes) == []
        assert next_content(core) == b"next"

    def test_muting_for_a_quota_needs_only_rows_of_the_table(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """KIP-219: the answer leaves at once, and the next request is handled when the throttle time is over. One more
        state needs no other code. A state without a row for `REQUEST` hands out no request, and must not read for ever.
        """
        mute, unmute = "a quota is exceeded", "the wait is over"
        rows = dict(TRANSITIONS)
        rows[mute] = {ANSWERING: "answering, then muted"}
        rows[unmute] = {"muted": READY, "answering, then muted": ANSWERING}
        rows[ANSWERED] = {**rows[ANSWERED], "answering, then muted": "muted"}
        monkeypatch.setattr(connection_core, "TRANSITIONS", rows)
        monkeypatch.setattr(connection_core, "_AFTER_ANSWER", rows[ANSWERED])
        core = core_in(ANSWERING)
        core.happens(mute)
        core.receive_data(frame(b"next" * INPUT_HIGH_BYTES))
        assert not core.wants_input
        core.happens(unmute)
        core.happens(mute)
        core.answered(None)
        assert core.state == "muted"
        assert core.next_request() is None
        core.happens(unmute)
        assert core.next_request() is not None


class TestAuthentication:
    def test_only_small_requests_are_accepted_before_authentication(self) -> None:
        core = ConnectionCore(MAX_BYTES)
        core.begin_authentication(10)
        with pytest.raises(InvalidFrameSize):
            core.receive_data(frame(b"x" * 11))
        core = ConnectionCore(MAX_BYTES)
        core.begin_authentication(10)
        core.receive_data(frame(b"x" * 10))
        assert next_content(core) == b"x" * 10
        core.answered(b"answer")
        core.open()
        core.receive_data(frame(b"x" * 11))
        assert next_content(core) == b"x" * 11


class TestInput:
    def test_requests_before_an_impossible_size_are_kept(self) -> None:
        core = core_in(READY)
        with pytest.raises(InvalidFrameSize):
            core.receive_data(frame(b"a") + frame(b"b") + b"\xff\xff\xff\xff")
        assert next_content(core) == b"a"
        core.answered(None)
        assert next_content(core) == b"b"

    def test_a_partial_request_waits_for_its_rest(self) -> None:
        core = core_in(READY)
        core.receive_data(frame(b"ab")[:5])
        core.settle()
        assert core.waits_for == INPUT
        core.receive_data(b"b")
        assert next_content(core) == b"ab"
        core.settle()
        assert core.waits_for == 0

    def test_no_request_is_handled_for_a_peer_that_reads_slowly(self) -> None:
        core = core_in(READY)
        core.wait_for(PEER)
        core.receive_data(frame(b"x" * INPUT_HIGH_BYTES))
        assert core.waits_for == PEER | INPUT
        assert core.next_request() is None
        assert not core.has_requests
        assert not core.wants_input
        core.wait_no_more(PEER)
        assert core.has_requests
        assert core.wants_input

    def test_the_received_bytes_of_large_requests_are_counted(self) -> None:
        core = core_in(READY)
        core.receive_data(frame(b"x" * SMALL_BYTES)[:10])
        assert core.needs_memory, "with its size it is larger"
        core.receive_data(frame(b"x" * SMALL_BYTES)[10:])
        core.receive_data(frame(b"y" * 2 * SMALL_BYTES)[:10])
        assert core.bytes_to_count() == (0, 10, 2 * SMALL_BYTES + 4 - 10)
        core.counted(10, may_read_on=False)
        assert not core.wants_input
        assert core.reads_on
        core.wait_no_more(MEMORY)
        assert core.wants_input
        core.receive_data(frame(b"y" * 2 * SMALL_BYTES)[10:])
        assert core.bytes_to_count() == (3 * SMALL_BYTES, 0, 0), "whole requests are counted without their size"
        assert core.next_request() is not None
        core.answered(None)
        assert core.next_request() is not None
        core.decoding(2 * SMALL_BYTES)
        assert core.is_decoding
        assert core.bytes_to_count() == (2 * SMALL_BYTES, 0, 0)
        core.decoding(0)
        assert core.bytes_to_count() == (0, 0, 0)
        assert core.needs_memory, "until it was counted that it has none"
        core.counted(0, may_read_on=True)
        assert not core.needs_memory


def test_a_paused_node_reads_handles_and_sends_nothing() -> None:
    core = core_in(ANSWERING)
    core.receive_data(frame(b"next"))
    core.wait_for(NODE)
    core.answered(b"answer")
    core.keep(b"more")
    assert not core.wants_input
    assert not core.has_requests
    assert core.next_request() is None
    assert core.data_to_send() == []
    core.wait_no_more(NODE)
    assert core.wants_input
    assert core.has_requests
    assert core.data_to_send() == [b"answer", b"more"]
    assert core.next_request() is not None
    # whoever closes the connection sends the finished answers
    core.answered(b"last")
    core.wait_for(NODE)
    core.close()
    assert core.data_to_send() == [b"last"]
