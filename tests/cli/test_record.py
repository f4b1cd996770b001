"""`muster groups record`: the life of a record of a share group, from the state log of a running server."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from muster.cli import main
from muster.cli.groups.record import lines
from muster.coordinator.share_state.record_life import Moment, Position
from muster.protocol.messages import initialize_share_group_state as initialize
from muster.protocol.messages import write_share_group_state as write
from muster.protocol.messages.find_coordinator import FindCoordinatorRequest
from muster.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from tests.coordinator.topics.support import batch
from tests.support.muster import Client, connected, running

Capture = pytest.CaptureFixture[str]
TEN_DAYS_MS = 864_000_000


async def written(client: Client, topic_id: bytes) -> None:
    """A record that was delivered three times, and accepted."""
    rows = [TopicProduceData("", topic_id, [PartitionProduceData(0, batch(b"a", b"b"))])]
    assert (await client.ask(ProduceRequest(None, -1, 1_000, rows))).responses[0].partition_responses[0].error_code == 0
    text = "g:AAAAAAAAAAAAAAAAAAAAAg:0"
    await client.ask(FindCoordinatorRequest(key_type=2, coordinator_keys=[text]))
    part = initialize.PartitionData(0, 1, 0)
    new = initialize.InitializeShareGroupStateRequest("g", [initialize.InitializeStateData(topic_id, [part])])
    assert (await client.ask(new)).results[0].partitions[0].error_code == 0
    for batches in ([write.StateBatch(0, 1, 0, 1)], [write.StateBatch(0, 0, 0, 2)], [write.StateBatch(0, 0, 2, 3)]):
        row = write.PartitionData(0, 1, 0, -1, 0, batches)
        change = write.WriteShareGroupStateRequest("g", [write.WriteStateData(topic_id, [row])])
        assert (await client.ask(change)).results[0].partitions[0].error_code == 0


async def run(server: Any, *words: str) -> int:
    address = f"127.0.0.1:{server.bound[0].port}"
    return await asyncio.to_thread(main, ["groups", "record", *words, "--bootstrap-server", address])


async def test_the_life_of_a_record_is_printed(capsys: Capture) -> None:
    async with running(topics=["orders:1"]) as server:
        async with connected(server) as client:
            assert await run(server, "g", "orders-0", "0") == 1
            assert "no share group has begun there" in capsys.readouterr().err
            await written(client, server.topics.by_name["orders"].topic_id)
        capsys.readouterr()
        assert await run(server, "g", "orders-0", "0") == 0
        found = [line[21:] if line[:2] == "20" else line for line in capsys.readouterr().out.splitlines()]
        released = "ended without success: its worker released it, or the lock was over; it is available"
        assert found == [
            "no delivery of it has ended: it waits, or a worker holds it (the oldest entry of the log)",
            f"delivery 1 {released}",
            f"delivery 2 {released}",
            "it was accepted in delivery 3",
            "now: acknowledged after 3 deliveries",
        ]
        assert await run(server, "g", "orders-0", "1", "--json") == 0
        answer = json.loads(capsys.readouterr().out)
        assert [(one["state"], one["deliveries"]) for one in answer["moments"]] == [("WAITING", 0), ("AVAILABLE", 1)]
        for words, why in (
            (("g", "orders-0", "2"), "ends at offset 2: there is no record 2 yet"),
            (("h", "orders-0", "0"), "the share group h has no state for orders-0"),
            (("g", "orders-1", "0"), "has no such partition"),
        ):
            assert await run(server, *words) == 1
            assert why in capsys.readouterr().err
        assert await run(server, "g", "orders", "0") == 2
        assert await run(server, "g", "orders-0", "x") == 2


def test_the_history_says_who_held_the_record() -> None:
    moments = [Moment(TEN_DAYS_MS, Position("WAITING"), 0), Moment(TEN_DAYS_MS, Position("AVAILABLE", 1), 0)]
    event = {
        "topic": "t", "partition": 0, "first_offset": 3, "last_offset": 3, "records": 1, "deliveries": 1,
        "cause": "lock_over", "member": "worker-2", "state": "available", "left_out": 0,
    }  # fmt: skip
    assert lines(moments, [event])[1][21:] == (
        "member worker-2 held 1 record of t-0 (offset 3) until the lock was over in delivery 1: available again"
    )


@pytest.mark.parametrize(
    ("positions", "now"),
    [
        ([Position("WAITING")], "no delivery of it has ended: it waits, or a worker holds it"),
        ([Position("AVAILABLE", 1)], "available after 1 delivery"),
        ([Position("ARCHIVED", 5), Position("PASSED")], "done, archived after 5 deliveries"),
        (
            [Position("AVAILABLE", 2), Position("PASSED")],
            "done after 2 deliveries without success: accepted, archived or passed over",
        ),
        (
            [Position("WAITING"), Position("PASSED")],
            "done after no deliveries without success: accepted, archived or passed over",
        ),
        ([Position("PASSED")], "the group is done with it, or began behind it"),
        ([Position("NO_STATE")], "the group has no state for this partition any more"),
    ],
)
def test_the_last_line_is_the_present_state(positions: list[Position], now: str) -> None:
    moments = [Moment(TEN_DAYS_MS, position, 3) for position in positions]
    assert lines(moments)[-1] == f"now: {now}"
    assert lines(moments)[0].startswith("1970-01-11 ")
