"""`muster console` over a cluster: its events, and those that are inferred where the cluster keeps none."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from muster.cli import main
from muster.cli.console.cluster_source import ClusterSource
from muster.cli.console.inferred import InferredEvents, OffsetsRecord
from muster.cli.console.past import PastRebalances
from muster.coordinator.config.listeners import parse_addresses
from muster.coordinator.http.address import DoorAddress
from muster.coordinator.http.console.routes import Console
from muster.coordinator.http.door import Door
from muster.coordinator.server import THIS_MACHINE
from muster.protocol.messages.group_records.group_metadata import GroupMetadataKey, GroupMetadataValue, MemberMetadata
from muster.protocol.records import OFFSETS, encode_record
from muster.testcontrol.server_control import ServerControl
from tests.coordinator.groups.consumer.harness import ConsumerGroupHarness
from tests.coordinator.groups.share.harness import ShareGroupHarness
from tests.coordinator.groups.streams.harness import StreamsGroupHarness
from tests.coordinator.http.doors import ask
from tests.e2e.aio import consuming
from tests.testcontrol.server import bootstrap, controlled


@asynccontextmanager
async def over_a_cluster(**given: Any) -> AsyncIterator[tuple[Door, ServerControl]]:
    async with controlled(**given) as found:
        clock = THIS_MACHINE.clock()
        source = ClusterSource(parse_addresses(bootstrap(found), "--bootstrap-server"), None)
        console = Console(source, clock)
        door = Door(clock, DoorAddress("127.0.0.1", 0), console.routes(), console)
        await door.start()
        try:
            yield door, found
        finally:
            await door.stop()


async def read(door: Door, path: str) -> Any:
    status, answer = await ask(door, f"/console/{path}")
    assert status == 200, answer
    return answer


async def until(door: Door, kind: str) -> list[dict[str, Any]]:
    """The newest events, once one of this kind is among them."""
    async with asyncio.timeout(20):
        while True:
            events: list[dict[str, Any]] = (await read(door, "recent"))["events"]
            if any(one["kind"] == kind for one in events):
                return events


@pytest.mark.parametrize("has_events", [True, False], ids=["events", "inferred"])
async def test_a_group_of_a_cluster_has_its_history(has_events: bool) -> None:
    async with over_a_cluster(muster_group_events_enable=str(has_events).lower()) as (door, found):
        await read(door, "about")
        async with consuming(bootstrap(found), "orders", group_id="g", client_id="c") as consumer:
            await found.groups.wait_stable("g", members=1, partitions="orders")
            await consumer.commit(dict.fromkeys(consumer.assignment(), 0))
            events = await until(door, "rebalance_completed")
            about = await read(door, "about")
            assert (about["kind"], about["inferred"]) == ("cluster", not has_events)
            assert [(one["node"], one["alive"]) for one in (await read(door, "nodes"))["nodes"]] == [(1, True)]
            group = await read(door, "groups/g")
            assert (group["state"], group["member_count"]) == ("Stable", 1)
            assert [one["lag"] for one in (await read(door, "groups/g/offsets"))["offsets"]] == [0, 0]
            assert (await read(door, "groups/g/settings"))["settings"]
            history = (await read(door, "groups/g/history"))["events"]
            ids = {one["id"] for one in history}
            assert {one["id"] for one in events if one["group"] == "g"} <= ids
            (completed,) = [one for one in history if one["kind"] == "rebalance_completed"]
            assert completed["cause"] == "member_joined"
            assert completed["members"][0]["assignment"] == [{"topic": "orders", "partitions": [0, 1]}]
            why = await read(door, f"groups/g/why?at={completed['time']}")
            assert (why["id"], "joined" in why["sentences"][0]) == (completed["id"], True)
        assert await until(door, "group_emptied")
        assert (await ask(door, "/console/groups/other"))[0] == 404


def record(offset: int, at_ms: int, generation: int, *members: str) -> OffsetsRecord:
    rows = [MemberMetadata(one, None, one, "/10.0.0.1", 60_000, 10_000, b"", b"") for one in members]
    value = GroupMetadataValue("other", generation, "x", members[0] if members else None, at_ms - 5, rows)
    key = OFFSETS.encode_key(GroupMetadataKey("g"))
    return OffsetsRecord(3, offset, at_ms, key, OFFSETS.encode_value(value, 3))


def test_causes_are_inferred_from_two_records_in_a_row() -> None:
    inference = InferredEvents({})
    found = inference.take([record(1, 1_000, 1, "a"), record(2, 60_000, 2, "a", "b")])
    kinds = [(one.id, one.value["kind"]) for one in found if one.value["time"] > 10_000]
    assert ("3:2", "rebalance_completed") in kinds
    assert ("3:2:joined0", "member_joined") in kinds
    again = record(3, 61_000, 2, "a", "b")
    assert inference.take([again]) == []  # the same generation is no rebalance
    (last,) = [one for one in inference.take([record(4, 90_000, 3, "a")]) if one.value["kind"] == "rebalance_completed"]
    assert last.value["trigger"]["member"] == "b"
    gone = inference.take([OffsetsRecord(3, 5, 99_000, record(0, 1, 1).key, None)])
    assert [one.value["kind"] for one in gone] == ["group_deleted"]
    assert inference.take([OffsetsRecord(3, 6, 1, b"\x00\x63", b""), OffsetsRecord(3, 7, 1, b"", b"")]) == []


def _consumers(harness: Any, member: str) -> None:
    harness.first_heartbeat(member, "t")


def _workers(harness: Any, member: str) -> None:
    harness.heartbeat(member, 0, "t")


def _instances(harness: Any, member: str) -> None:
    harness.heartbeat(member, 0, "0:t")


@pytest.mark.parametrize(
    ("make", "join"),
    [(ConsumerGroupHarness, _consumers), (ShareGroupHarness, _workers), (StreamsGroupHarness, _instances)],
    ids=["consumer", "share", "streams"],
)
def test_the_epochs_of_groups_have_their_members(make: Any, join: Any) -> None:
    harness = make()
    inference = InferredEvents({})
    seen: list[OffsetsRecord] = []

    def happened() -> list[tuple[str, str]]:
        """The events of the records since the last call."""
        new: list[OffsetsRecord] = []
        for one in harness.records:
            key, value = encode_record(OFFSETS, one)
            new.append(OffsetsRecord(3, len(seen) + len(new), harness.now.wall_ms, key, value))
        harness.records.clear()
        seen.extend(new)
        return [(one.id, one.value["kind"]) for one in inference.take(new)]

    join(harness, "a")
    assert [kind for _, kind in happened()] == ["member_joined", "epoch_reconciled"]
    harness.advance(10_000)
    join(harness, "b")
    joined = happened()
    assert [kind for _, kind in joined] == ["member_joined", "epoch_reconciled"]
    harness.advance(1_000)
    harness.heartbeat("b", -1)
    assert [kind for _, kind in happened()] == ["member_left", "epoch_reconciled"]
    # all at once gives the same events, with the same ids
    again = [(one.id, one.value["kind"]) for one in InferredEvents({}).take(seen)]
    assert [one for one in again if one in joined] == joined


def test_the_past_is_read_from_the_table_of_rebalances(tmp_path: Path) -> None:
    pa = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    from muster.pipeline.tables.schema import TABLES

    past = PastRebalances(tmp_path)
    assert "there is no" in (past.missing() or "")
    row = dict.fromkeys(TABLES["rebalances"].names) | {
        "group": "g", "generation": 4, "end_ms": 5_000, "took_ms": 2_000, "cause": "session_expired",
        "trigger_member_id": "m", "members_after": 2, "source": "log",
    }  # fmt: skip
    past.table.mkdir(parents=True)
    rows = [row, {**row, "group": "h"}, {**row, "end_ms": 9_000}]
    parquet.write_table(pa.Table.from_pylist(rows, schema=TABLES["rebalances"]), past.table / "part.parquet")
    assert past.missing() is None
    (event,) = past.of("g", 1_000, 6_000)
    assert (
        event.value["sentence"] == "rebalance to 4, 2 s: member m sent no heartbeat for its session timeout; 2 members"
    )


def test_wrong_options_are_reported(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert main(["console", "--tables", str(tmp_path)]) == 2
    assert "--tables" in capsys.readouterr().err
    assert main(["console", "--http", "0.0.0.0:0"]) == 2
