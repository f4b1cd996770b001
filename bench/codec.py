"""Measures the CPU time of the codec: `python -m bench.codec`. Prints median and minimum of several runs, in us per
call.
"""

from __future__ import annotations

import statistics
import subprocess
import sys
import time
from collections.abc import Callable

from muster.protocol import frames
from muster.protocol.api import api_named
from muster.protocol.messages.fetch import FetchableTopicResponse, FetchResponse, PartitionData
from muster.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from muster.protocol.messages.join_group import (
    JoinGroupRequest,
    JoinGroupRequestProtocol,
    JoinGroupResponse,
    JoinGroupResponseMember,
)
from muster.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from muster.protocol.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from tests.support import hub

RUNS = 9
MEMBER_ID = "consumer-group-1-8a5f6c5e-8f5e-4d6c-9c53-3f5a0a6a8f10"
GROUP_MODULES = [
    "api_versions",
    "delete_groups",
    "describe_groups",
    "find_coordinator",
    "heartbeat",
    "join_group",
    "leave_group",
    "list_groups",
    "offset_commit",
    "offset_delete",
    "offset_fetch",
    "sync_group",
]


def report(name: str, times_us: list[float], goal: float | None = None) -> None:
    """Print median and minimum, and whether the median reaches the goal."""
    median = statistics.median(times_us)
    verdict = "" if goal is None else f"   goal {goal:g}: {'reached' if median <= goal else 'MISSED'}"
    print(f"{name:<48}{median:>10.2f}{min(times_us):>10.2f}{verdict}")


def measure(name: str, call: Callable[[], object], goal: float | None = None) -> None:
    """Time several runs of a call, and print the result. Each run has as many calls as take 20 ms."""
    times, start = 1, time.process_time()
    while (time.process_time() - start) < 0.02:
        call()
        times += 1
    found: list[float] = []
    for _ in range(RUNS):
        start = time.process_time()
        for _ in range(times):
            call()
        found.append((time.process_time() - start) / times * 1e6)
    report(name, found, goal)


def measure_import() -> None:
    """The CPU time that importing the protocol with the group APIs takes in a fresh interpreter."""
    program = (
        "import time, importlib, collections.abc, struct, typing\n"
        "start = time.process_time()\n"
        "from muster.protocol import api, frames, records, consumer\n"
        f"for name in {GROUP_MODULES!r}: importlib.import_module('muster.protocol.messages.' + name)\n"
        "print(time.process_time() - start)"
    )
    runs = [
        float(subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True).stdout)
        for _ in range(RUNS)
    ]
    report("import protocol and the group APIs", [run * 1e6 for run in runs], 15_000)


def main() -> None:
    """Run all measures."""
    heartbeat, join, sync = api_named("Heartbeat"), api_named("JoinGroup"), api_named("SyncGroup")
    request = heartbeat.encode_request(4, HeartbeatRequest("my-group", 5, MEMBER_ID))
    beat = HeartbeatResponse()
    frame = frames.request_frame(heartbeat, 4, 1, HeartbeatRequest("my-group", 5, MEMBER_ID), "client")
    old = frames.request_frame(heartbeat, 3, 1, HeartbeatRequest("my-group", 5, MEMBER_ID), "client")
    header, body = frames.decode_request_header(frame, 4, len(frame))
    splitter = frames.FrameSplitter()
    protocols = [JoinGroupRequestProtocol(name, bytes(50)) for name in ("range", "cooperative-sticky")]
    joining = join.encode_request(
        9, JoinGroupRequest("my-group", 45000, 300000, MEMBER_ID, None, "consumer", protocols)
    )
    members = [JoinGroupResponseMember(f"{MEMBER_ID}-{i}", None, bytes(200)) for i in range(1000)]
    joined = JoinGroupResponse(0, 0, 5, "consumer", "range", MEMBER_ID, False, MEMBER_ID, members)
    assignments = [SyncGroupRequestAssignment(f"{MEMBER_ID}-{i}", bytes(60)) for i in range(1000)]
    syncing = sync.encode_request(5, SyncGroupRequest("my-group", 5, MEMBER_ID, None, "consumer", "range", assignments))
    commit = api_named("OffsetCommit")
    rows = [OffsetCommitRequestPartition(i, i * 100, 3, "") for i in range(100)]
    committing = commit.encode_request(
        9, OffsetCommitRequest("my-group", 5, MEMBER_ID, topics=[OffsetCommitRequestTopic("topic", partitions=rows)])
    )
    fetch, records = api_named("Fetch"), memoryview(bytes(100_000))
    fetched = FetchResponse(
        responses=[FetchableTopicResponse("topic", partitions=[PartitionData(i, records=records) for i in range(10)])]
    )

    print(f"{'us CPU':<48}{'median':>10}{'least':>10}")
    measure("Heartbeat v4 request, decode", lambda: heartbeat.decode_request(4, request), 0.65)
    measure("Heartbeat v4 response, encode", lambda: heartbeat.encode_response(4, beat), 0.2)
    measure("request header v1, decode", lambda: frames.decode_request_header(old, 4, len(old)), 0.5)
    measure("request header v2, decode", lambda: frames.decode_request_header(frame, 4, len(frame)))
    measure("split one frame", lambda: splitter.feed(frame))
    measure("hub: Heartbeat v4 request", lambda: hub.decode_request(header, frame, body, len(frame)))
    measure("hub: Heartbeat v4 response frame", lambda: hub.encode_response(header, beat))
    measure("JoinGroup v9 request, decode", lambda: join.decode_request(9, joining), 2.0)
    measure("JoinGroup v9 response of 1,000 members, encode", lambda: join.encode_response(9, joined), 300)
    measure("JoinGroup v5 response of 1,000 members, encode", lambda: join.encode_response(5, joined), 300)
    measure("SyncGroup v5 request of 1,000, decode", lambda: sync.decode_request(5, syncing))
    measure("OffsetCommit v9 request of 100, decode", lambda: commit.decode_request(9, committing))
    measure("Fetch v12 response of 10 x 100 kB, frame", lambda: frames.response_frame(fetch, 12, 1, fetched))
    measure_import()


if __name__ == "__main__":
    main()
