"""Measures what fault rules cost a heartbeat: `python -m bench.faults`. The figure is the CPU time of cached heartbeats
through `dispatch`, without sockets. There are three cases: no rule, as in production; a rule for another API; a rule
for another group.
"""

from __future__ import annotations

import time
from importlib import import_module
from typing import Any

from muster.coordinator.api.exchange import InterceptPoint
from muster.protocol import frames
from muster.protocol.api import ApiKey, api
from muster.protocol.messages.heartbeat import HeartbeatRequest
from muster.testcontrol.faults.actions import Error
from muster.testcontrol.faults.engine import Faults
from muster.testcontrol.faults.matching import Match
from muster.testcontrol.interceptors import Interceptors

BEATS = 20_000
ROUNDS = 15


class _ServerOfOne:
    """The part of a server that fault rules use."""

    def __init__(self, intercept_point: InterceptPoint) -> None:
        self.intercept_points = {1: intercept_point}


def beats_us(peer: Any, frame: bytes) -> float:
    """The CPU time of one heartbeat, in us."""
    handle, end = peer.requests.handle, len(frame)
    began = time.process_time()
    for _ in range(BEATS):
        handle(frame, 4, end)
    return (time.process_time() - began) / BEATS * 1e6


def main() -> None:
    """Print a row for each case: the fastest of all rounds, and its ratio to the case without rules."""
    peer = import_module("tests.coordinator.api.cached_requests.peer").Peer()
    beat = HeartbeatRequest("g", 1, peer.member())
    frame = frames.request_frame(api(ApiKey.HEARTBEAT), 4, 1, beat, "me")
    for _ in range(4):
        peer.ask(ApiKey.HEARTBEAT, 4, beat)
    server = _ServerOfOne(peer.dispatcher.intercept_point)
    faults = Faults(server, Interceptors(server))  # type: ignore[arg-type]  # has all that fault rules use
    best: dict[str, float] = {}
    for _ in range(ROUNDS):
        for name, match in (
            ("no rule", None),
            ("a rule for another API", Match(api="JoinGroup")),
            ("no rule any more", None),
        ):
            faults.clear()
            if match is not None:
                faults.add(match, Error("NOT_COORDINATOR"))
            best[name] = min(best.get(name, 1e9), beats_us(peer, frame))
    first = best["no rule"]
    for name, took in best.items():
        print(f"{name:30} {took:6.3f} us {took / first:5.2f}")


if __name__ == "__main__":
    main()
