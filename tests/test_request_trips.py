"""docs/dev/architecture.md lists all modules that an OffsetCommit and a JoinGroup go through."""

from __future__ import annotations

import re
import sys
from collections.abc import Awaitable, Callable
from functools import cache
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

from muster.protocol import frames
from muster.protocol.api import api
from muster.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from muster.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from tests.support.muster import Client, connected, running

ROOT = Path(__file__).resolve().parents[1]
TRIPS = 3
"""The number of trips of each kind, after a first trip that opens the log."""
MOST = {"commit": (28, 37), "join": (35, 44)}
"""The most rows of the table, and the most modules that a request calls. Do not raise these numbers."""

BESIDE = {
    "protocol/wire.py": "numbers",
    "protocol/hashing.py": "a hash",
    "coordinator/topics/partition.py": "fetches that wait are woken",
}
"""Modules that all requests use, which the table leaves out, with the reason."""
BESIDE_ONE = {
    "commit": {
        "coordinator/groups/classic/member.py": "the new group is empty",
        "coordinator/state_machine/deadlines.py": "the new group is empty",
        "coordinator/history/journal.py": "there is no event",
        "coordinator/api/repeated_requests.py": "the request is noted, for it may be repeated",
    },
    "join": {
        "coordinator/history/schema.py": "a row of the history",
        "coordinator/history/event_writer.py": "a row of the history",
        "coordinator/history/counts.py": "a row of the history",
        "coordinator/log/records/batches.py": "a row of the history",
    },
}
GENERATED = "protocol/messages/"
LOG_LINES = "coordinator/system/logging/"
"""Whether these modules write a line depends on the tests that ran before in this process."""


def rows(kind: str) -> list[str]:
    """The modules that the table lists for this kind of request."""
    page = (ROOT / "docs" / "dev" / "architecture.md").read_text(encoding="utf-8")
    table = page.partition("## Two requests, module by module")[2].partition("\n## ")[0]
    found = re.findall(r"(?m)^\| `([^`]+\.py)` \| (?:(commit|join): )?", table)
    return [module for module, only in found if only in ("", kind)]


class Trace:
    """The modules with a function that the thread of the event loop calls inside the block."""

    def __init__(self) -> None:
        self.modules: dict[str, None] = {}
        self._before: Any = None

    def __enter__(self) -> None:
        self._before = sys.getprofile()
        sys.setprofile(self._note)

    def __exit__(self, *_: object) -> None:
        sys.setprofile(self._before)

    def _note(self, frame: FrameType, event: str, _: object) -> None:
        module = module_of(frame.f_code.co_filename) if event == "call" else None
        if module is not None:
            self.modules[module] = None


@cache
def module_of(file: str) -> str | None:
    """The module of the server in this file, which may be named by the link in `muster/`."""
    path = Path(file).resolve()
    if not path.is_file() or not path.is_relative_to(ROOT):
        return None
    inside = str(path.relative_to(ROOT))
    return inside if inside.startswith(("coordinator/", "protocol/")) and not inside.startswith(LOG_LINES) else None


async def ask(client: Client, request: Any, trace: Trace) -> Any:
    """Send a request, and trace the server until the bytes of the answer are there."""
    key, version, _ = client.send(request, 9)
    with trace:
        data = await client.reader.readexactly(int.from_bytes(await client.reader.readexactly(4), "big"))
    _, body = frames.decode_response_header(api(key), version, data, 0, len(data))
    return api(key).decode_response(version, data, body)


async def commit(client: Client, name: str, trace: Trace) -> int:
    topic = OffsetCommitRequestTopic("t", partitions=[OffsetCommitRequestPartition(0, 5)])
    answer = await ask(client, OffsetCommitRequest(name, topics=[topic]), trace)
    error_code: int = answer.topics[0].partitions[0].error_code
    return error_code


async def join(client: Client, name: str, trace: Trace) -> int:
    """The first request of a member only gets a member id for it."""
    offered = [JoinGroupRequestProtocol("range", b"metadata")]
    request = JoinGroupRequest(name, 10_000, 60_000, protocol_type="consumer", protocols=offered)
    request.member_id = (await ask(client, request, trace)).member_id
    error_code: int = (await ask(client, request, trace)).error_code
    return error_code


async def trips(kind: str, directory: Path) -> list[dict[str, None]]:
    """The modules of each trip. Each has its own connection, client id and group."""
    play: dict[str, Callable[[Client, str, Trace], Awaitable[int]]] = {"commit": commit, "join": join}
    found = []
    one_partition = {"offsets.topic.num.partitions": "1"}
    async with running(one_partition, data_dir=directory, topics=["t:1"]) as server:
        for number in range(TRIPS + 1):
            name, trace = f"{kind}-{number}", Trace()
            async with connected(server, name) as client:
                assert await play[kind](client, name, trace) == 0
            found.append(trace.modules)
    return found[1:]


@pytest.mark.parametrize("kind", MOST)
async def test_a_request_goes_through_the_modules_of_the_table_and_no_others(kind: str, tmp_path: Path) -> None:
    found = await trips(kind, tmp_path)
    # modules of only some trips did other work, which happened at the same moment
    always = [module for module in found[0] if all(module in other for other in found)]
    named = rows(kind)
    beside = {*BESIDE, *BESIDE_ONE[kind]}
    assert [one for one in always if one not in named and one not in beside and not one.startswith(GENERATED)] == []
    assert [one for one in named if not any(one in modules for modules in found)] == []
    most_rows, most = MOST[kind]
    assert len(named) <= most_rows
    assert len(always) <= most
