from __future__ import annotations

import socket
from dataclasses import replace
from typing import Any

import pytest

from muster.coordinator.net.limits import Limits, parse_overrides
from muster.coordinator.net.settings import NetSettings
from muster.coordinator.system.clock import ManualClock


class Connection:
    """The part of a connection that limits use."""

    def __init__(self, limits: Limits, host: str = "10.0.0.1") -> None:
        self.host = host
        self.alive = False
        self.core: Any = self
        self.is_answering = False
        self.descriptor = -1
        self.has_requests = False
        self.limits = limits
        self.calls: list[str] = []
        limits.enter(self)

    def lives(self) -> None:
        self.alive = True

    def close_idle(self) -> None:
        self.calls.append("idle")
        self.limits.leave(self)

    def close(self) -> None:
        self.calls.append("close")

    def abort(self) -> None:
        self.calls.append("abort")

    def admit_or_wait(self) -> None:
        self.calls.append("room")

    def memory_granted(self) -> None:
        self.calls.append("memory")


def make(clock: ManualClock | None = None, max_files: int | None = None, **changes: Any) -> Limits:
    return Limits(
        replace(NetSettings(), **changes), clock or ManualClock(0), None if max_files is None else lambda: max_files
    )


class TestCounts:
    def test_max_connections_limits_the_connections(self) -> None:
        limits = make(max_connections=2)
        first, _ = Connection(limits), Connection(limits)
        assert "max.connections" in (limits.refusal("10.0.0.2") or "")
        limits.leave(first)
        assert limits.refusal("10.0.0.2") is None
        assert len(limits) == 1

    def test_the_connection_limits_can_be_changed(self) -> None:
        limits = make(max_connections=1, max_files=9)
        first, waiting = Connection(limits), Connection.__new__(Connection)
        waiting.host, waiting.calls, waiting.limits = "10.0.0.2", [], limits
        assert limits.wait(waiting)
        limits.set_limits(replace(NetSettings(), max_connections=2, max_connections_per_ip=1))
        assert waiting.calls == ["room"]
        assert "max.connections.per.ip" in (limits.refusal(first.host) or "")
        limits.set_limits(replace(NetSettings(), max_connections=20))
        assert limits.max_connections == 9

    def test_open_files_limit_connections_too(self) -> None:
        limits = make(max_files=1)
        Connection(limits)
        assert limits.refusal("10.0.0.2") is not None

    def test_max_connections_per_ip_and_its_overrides_limit_an_address(self) -> None:
        limits = make(max_connections_per_ip=1, max_connections_per_ip_overrides="10.0.0.2:2")
        first = Connection(limits)
        Connection(limits, "10.0.0.2")
        assert "max.connections.per.ip" in (limits.refusal("10.0.0.1") or "")
        assert limits.refusal("10.0.0.2") is None
        Connection(limits, "10.0.0.2")
        assert limits.refusal("10.0.0.2") is not None
        limits.leave(first)
        assert limits.refusal("10.0.0.1") is None

    def test_a_connection_above_the_limit_waits_for_a_free_place(self) -> None:
        limits = make(max_connections=1, socket_listen_backlog_size=2)
        first = Connection(limits)
        waiting = [Connection(make()) for _ in range(3)]
        assert [limits.wait(member) for member in waiting] == [True, True, False]
        limits.leave(waiting[0])
        limits.leave(first)
        assert [member.calls for member in waiting] == [[], ["room"], []]

    def test_a_free_place_that_is_not_taken_goes_to_the_next(self) -> None:
        limits = make(max_connections=1)
        first = Connection(limits)
        closing, live = Connection(make()), Connection(make())
        assert limits.wait(closing)
        assert limits.wait(live)
        live.admit_or_wait = lambda: limits.enter(live)
        limits.leave(first)
        assert closing.calls == ["room"]
        assert len(limits) == 1

    def test_an_address_above_its_limit_does_not_wait(self) -> None:
        limits = make(max_connections=1, max_connections_per_ip=1)
        Connection(limits)
        assert not limits.wait(Connection(make()))
        assert limits.wait(Connection(make(), "10.0.0.2"))

    def test_leaving_without_entering_changes_nothing(self) -> None:
        limits = make()
        limits.leave(Connection(make()))
        assert len(limits) == 0

    def test_when_empty_calls_at_the_last_leave_or_at_once(self) -> None:
        limits = make()
        called: list[str] = []
        one, two = Connection(limits), Connection(limits)
        limits.when_empty(lambda: called.append("empty"))
        limits.leave(one)
        assert called == []
        limits.leave(two)
        assert called == ["empty"]
        make().when_empty(lambda: called.append("at once"))
        assert called == ["empty", "at once"]

    @pytest.mark.parametrize("text", ["10.0.0.1", "10.0.0.1:x", ":5", "10.0.0.1:-1"])
    def test_overrides_that_cannot_be_read_are_named(self, text: str) -> None:
        with pytest.raises(ValueError, match=r"max\.connections\.per\.ip\.overrides: '.*' is not ADDRESS:COUNT"):
            parse_overrides(f"10.0.0.9:1,{text}")

    def test_overrides_of_max_connections_per_ip_are_parsed(self) -> None:
        assert parse_overrides(" 10.0.0.1:5, ::1:7,") == {"10.0.0.1": 5, "::1": 7}


class TestIdle:
    def test_a_silent_connection_is_closed_after_the_idle_time_and_at_most_an_eighth_more(self) -> None:
        clock = ManualClock(0)
        limits = make(clock, connections_max_idle_ms=800)
        connection = Connection(limits)
        clock.advance(800)
        assert connection.calls == []
        clock.advance(100)
        assert connection.calls == ["idle"]

    def test_activity_restarts_the_idle_time(self) -> None:
        clock = ManualClock(0)
        limits = make(clock, connections_max_idle_ms=800)
        silent, alive = Connection(limits), Connection(limits)
        for _ in range(20):
            clock.advance(100)
            alive.lives()
        assert silent.calls == ["idle"]
        assert alive.calls == []

    def test_a_connection_that_waits_for_an_answer_is_not_idle(self) -> None:
        clock = ManualClock(0)
        limits = make(clock, connections_max_idle_ms=800)
        parked = Connection(limits)
        parked.is_answering = True
        clock.advance(10_000)
        assert parked.calls == []
        parked.is_answering = False
        clock.advance(700)
        assert parked.calls == []
        clock.advance(200)
        assert parked.calls == ["idle"]

    def test_the_idle_timer_runs_only_with_connections(self) -> None:
        clock = ManualClock(0)
        limits = make(clock, connections_max_idle_ms=800)
        limits.leave(Connection(limits))
        clock.advance(5_000)
        late = Connection(limits)
        clock.advance(900)
        assert late.calls == ["idle"]

    def test_a_negative_idle_time_never_closes_connections(self) -> None:
        clock = ManualClock(0)
        connection = Connection(make(clock, connections_max_idle_ms=-1))
        clock.advance(10_000_000)
        assert connection.calls == []

    def test_no_connection_is_closed_as_idle_after_the_stop(self) -> None:
        clock = ManualClock(0)
        limits = make(clock, connections_max_idle_ms=80)
        connection = Connection(limits)
        limits.stop()
        clock.advance(1_000)
        assert connection.calls == []


class TestInput:
    def test_unread_sockets_and_waiting_requests_count_as_input(self) -> None:
        limits = make()
        one, other = Connection(limits), Connection(limits)
        ours, theirs = socket.socketpair()
        with ours, theirs:
            other.descriptor = ours.fileno()
            assert not limits.input_waits(())
            theirs.send(b"x")
            assert limits.input_waits(())
            other.descriptor = -1
            assert not limits.input_waits(())
            assert limits.input_waits((ours.fileno(),))
        one.has_requests = True
        assert limits.input_waits(())


def test_overrides_apply_to_every_form_of_an_address() -> None:
    asked: list[str] = []

    def resolve_host(host: str, done: Any) -> None:
        asked.append(host)
        done("10.0.0.7" if host == "known" else None)

    settings = replace(
        NetSettings(), max_connections_per_ip=0, max_connections_per_ip_overrides="::1:1,known:2,unknown:3,10.0.0.8:4"
    )
    limits = Limits(settings, ManualClock(0), resolve_host=resolve_host)
    assert asked == ["known", "unknown"]
    for host in ("0:0:0:0:0:0:0:1", "10.0.0.7", "10.0.0.8"):
        assert limits.refusal(host) is None, host
    assert limits.refusal("10.0.0.9") is not None
