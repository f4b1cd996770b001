"""`muster groups describe` of a share group: lag, records in flight, and the oldest unacknowledged record."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Iterator
from itertools import islice
from typing import Any

import pytest

from muster.cli import main
from muster.cli.groups import share_records, show_groups
from muster.cli.groups.share_records import PartitionRecords, as_json, cells, sentence
from muster.coordinator.log import batches
from muster.coordinator.server import Server
from tests.support.muster import running
from tests.support.share_members import ACCEPT, REJECT, RELEASE, share_member

Capture = pytest.CaptureFixture[str]
Patch = pytest.MonkeyPatch
MINUTE_MS = 60_000


def append(server: Server, topic: str, count: int, age_ms: int) -> None:
    """Append records, each in a batch of its own, that were written so long ago."""
    partition = server.topics.open.partition(topic, 0)
    assert partition is not None
    wall_ms = server.clock.now().wall_ms - age_ms
    for number in range(count):
        data = batches.build([(None, b"%d" % number)], timestamp_ms=wall_ms + number)
        partition.log.append(partition.leader_epoch, data, wall_ms=wall_ms)


async def described(server: Server, capsys: Capture, *words: str) -> str:
    capsys.readouterr()
    address = f"127.0.0.1:{server.bound[0].port}"
    assert await asyncio.to_thread(main, ["groups", "describe", "g", *words, "--bootstrap-server", address]) == 0
    return capsys.readouterr().out


async def records(server: Server, capsys: Capture) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((await described(server, capsys, "--json")).splitlines()[-1])["records"]
    return found


async def test_the_records_of_a_group_are_shown(capsys: Capture, monkeypatch: Patch) -> None:
    async with running(topics=["t:1"]) as server:
        append(server, "t", 10, 2 * MINUTE_MS)
        async with share_member(server, "g", "w", "t") as member:
            nothing = await records(server, capsys)
            assert (nothing["lag"], nothing["not_begun"], nothing["partitions"][0]["start_offset"]) == (0, 1, None)
            assert await member.fetch() == [(0, 0, 9, 1)]
            begun = await records(server, capsys)
            assert (begun["partitions"][0]["start_offset"], begun["lag"], begun["in_flight"]) == (0, 10, 10)
            acks = [(0, 1, ACCEPT), (2, 3, RELEASE), (4, 4, REJECT), (5, 6, ACCEPT)]
            assert await member.acknowledge({0: acks}) == [0]
            found = await records(server, capsys)
            (row,) = found["partitions"]
            assert (row["start_offset"], row["end_offset"], row["lag"]) == (0, 10, 5)
            assert (row["in_flight"], row["held"], row["retried"], row["oldest_offset"]) == (3, {"w": 3}, 2, 2)
            assert 2 * MINUTE_MS - 10 <= found["oldest_age_ms"] < 3 * MINUTE_MS
            lines = (await described(server, capsys)).splitlines()
            summed = (
                "lag 5 records, 3 in flight (3 with w), 2 delivered before in vain, the oldest unacknowledged record"
            )
            assert lines[-3].startswith(summed)
            assert lines[-2].split() == " ".join(share_records.HEAD).split()
            assert lines[-1].split()[:8] == ["t", "0", "0", "10", "5", "3", "2", "2"]
            # another Kafka says the same, but not who holds records now
            monkeypatch.setattr(share_records, "_live", lambda *_: None)
            (other,) = (await records(server, capsys))["partitions"]
            assert other == {**row, "in_flight": None, "held": None}
            monkeypatch.setattr(share_records, "NEWEST", 0)
            (least,) = (await records(server, capsys))["partitions"]
            unknown = dict.fromkeys(("in_flight", "held", "retried", "oldest_offset", "oldest_ms"))
            assert least == {**row, **unknown}
            monkeypatch.undo()
        # the member has left: nobody holds a record
        found = await records(server, capsys)
        assert (found["lag"], found["in_flight"], found["retried"]) == (5, 0, 5)


async def test_a_group_that_is_done_has_no_oldest_record(capsys: Capture) -> None:
    async with running(topics=["t:1"]) as server:
        append(server, "t", 2, MINUTE_MS)
        async with share_member(server, "g", "w", "t") as member:
            assert await member.fetch() == [(0, 0, 1, 1)]
            assert await member.acknowledge({0: [(0, 1, ACCEPT)]}) == [0]
            found = await records(server, capsys)
            assert (found["lag"], found["in_flight"], found["retried"], found["oldest_age_ms"]) == (0, 0, 0, None)
            assert found["partitions"][0]["oldest_offset"] is None


def test_what_is_not_known_is_said() -> None:
    rows = [
        PartitionRecords("t", 0, 5, 9, None, None, None, None, None, None),
        PartitionRecords("t", 1, 5, 9, 2, 1, 1, 7, 1_000, {"w": 1}),
    ]
    assert sentence(rows, 3_000) == (
        "the lag is not known, how many are in flight is not known, the oldest unacknowledged record is 2 s old "
        "(offset 7 of t-1)"
    )
    assert as_json(rows, 3_000)["lag"] is None
    rows.append(PartitionRecords("t", 2, *[None] * 8))
    assert sentence(rows, 3_000).endswith("(offset 7 of t-1), the group has not begun in 1 partition")
    many = [rows[1]._replace(in_flight=21, held={f"m{at}": at for at in range(1, 7)})]
    assert "21 in flight (6 with m6, 5 with m5, 4 with m4, 3 with m3, 2 with m2, the others with 1 more)" in sentence(
        many, 3_000
    )
    assert [row[-1] for row in cells(rows, 3_000)] == [None, "2 s", None]
    assert sentence(rows[1:2], 3_000).startswith(
        "lag 2 records, 1 in flight (1 with w), 1 delivered before in vain, the oldest"
    )


async def test_watch_prints_what_happens_to_the_records_of_a_share_group(capsys: Capture, monkeypatch: Patch) -> None:
    watches = threading.Event()

    def follow(_: object, events: Any, position: dict[int, int]) -> Iterator[Any]:
        watches.set()
        return islice((one for one in events.follow(position) if one["kind"] == "deliveries_failed"), 2)

    monkeypatch.setattr(show_groups, "_follow", follow)
    async with running(topics=["t:1"]) as server:
        append(server, "t", 4, 0)
        async with share_member(server, "g", "w", "t") as member:
            address = f"127.0.0.1:{server.bound[0].port}"
            words = ["groups", "watch", "g", "--bootstrap-server", address]
            watching = asyncio.create_task(asyncio.to_thread(main, words))
            assert await asyncio.to_thread(watches.wait, 30)
            assert await member.fetch() == [(0, 0, 3, 1)]
            assert await member.acknowledge({0: [(0, 2, RELEASE), (3, 3, REJECT)]}) == [0]
            assert await watching == 0
    lines = [line[9:] for line in capsys.readouterr().out.splitlines() if "member w re" in line]
    assert lines == [
        "member w released 3 records of t-0 (offsets 0 to 2) in delivery 1: available again",
        "member w rejected 1 record of t-0 (offset 3) in delivery 1: archived",
    ]
