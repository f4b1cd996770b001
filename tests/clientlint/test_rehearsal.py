"""The rehearsal: trails of clients, and moments that are played on a running server."""

from __future__ import annotations

import asyncio
from contextlib import suppress

import pytest

from muster.clientlint import rehearsal
from muster.clientlint.leader_errors import LeaderError
from muster.clientlint.linter import Linter
from muster.clientlint.moments import MOMENTS, Moment
from muster.clientlint.report import as_json, as_text
from muster.clientlint.serving import ClientLint
from muster.clientlint.trails import MAX_STEPS, Trails
from muster.protocol.errors import ErrorCode
from muster.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from muster.protocol.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from muster.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from muster.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from muster.testcontrol.faults.actions import Error
from muster.testcontrol.faults.matching import Match
from muster.testcontrol.server_control import ServerControl
from tests.clientlint.scripted import CLIENT, Scripted
from tests.support.muster import connected
from tests.testcontrol.server import controlled


@pytest.fixture
def trails() -> Trails:
    return Trails()


@pytest.fixture
def client(trails: Trails) -> Scripted:
    return Scripted(Linter([trails]))


def beat(client: Scripted, error: int = 0) -> None:
    client.ask(HeartbeatRequest("g", 1, "m"), HeartbeatResponse(error_code=error))


def hit(client: Scripted, trails: Trails, error: int) -> None:
    call = client.send(HeartbeatRequest("g", 1, "m"))
    trails.hit(CLIENT.client_id)
    client.linter.answered(call, HeartbeatResponse(error_code=error), client.at_ms)


def test_a_client_that_looks_for_its_coordinator_and_recovers(client: Scripted, trails: Trails) -> None:
    beat(client)
    trails.begin()
    hit(client.later(3_000), trails, ErrorCode.NOT_COORDINATOR)
    assert "did not recover" in trails.reactions()[0].words
    hit(client.later(100), trails, ErrorCode.NOT_COORDINATOR)
    client.later(100).ask(FindCoordinatorRequest(coordinator_keys=["g"]), FindCoordinatorResponse())
    beat(client.later(2_800))
    assert trails.is_over
    (reaction,) = trails.reactions()
    assert reaction.words == (
        "Heartbeat was hit 2 times; recovered after 3.0 s: Heartbeat NOT_COORDINATOR (2 times) at 0 ms, "
        "FindCoordinator ok at 200 ms, Heartbeat ok at 3.0 s"
    )
    assert reaction.to_json()["recovered_ms"] == 3_000


def test_a_client_that_closes_its_connections_and_one_that_is_silent(client: Scripted, trails: Trails) -> None:
    hit(client, trails, ErrorCode.FENCED_INSTANCE_ID)
    assert "did not recover while the moment was watched" in trails.reactions()[0].words
    client.close()
    assert trails.is_over
    assert "Heartbeat was hit once; closed its connections: " in trails.reactions()[0].words


def test_the_steps_of_a_trail_are_bounded(client: Scripted, trails: Trails) -> None:
    hit(client, trails, ErrorCode.NOT_COORDINATOR)
    for number in range(MAX_STEPS + 5):
        beat(client.later(1), ErrorCode.REBALANCE_IN_PROGRESS if number % 2 else ErrorCode.NOT_COORDINATOR)
    assert trails.reactions()[0].steps.endswith(", …")
    beat(client)
    assert trails.reactions()[0].recovered_ms is None


UNAVAILABLE = Error("COORDINATOR_NOT_AVAILABLE")
QUICK = Moment("quick", "COORDINATOR_NOT_AVAILABLE", ("FindCoordinator",), UNAVAILABLE, 30, each_once=True)


async def test_moments_are_played_when_clients_work(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rehearsal, "WARM_UP_REQUESTS", 2)
    monkeypatch.setattr(rehearsal, "WARM_UP_MS", 1)
    monkeypatch.setattr(rehearsal, "CHECK_MS", 1)
    monkeypatch.setattr(rehearsal, "RECOVERY_MS", 50)
    said: list[str] = []
    async with controlled() as control:
        await play(control, said)


async def play(control: ServerControl, said: list[str]) -> None:
    lint = ClientLint(control.server, control.interceptors, said.append)
    not_static = QUICK._replace(name="static", static=True)
    nobody = QUICK._replace(name="nobody", apis=("EndTxn",), shakes="expire")
    lint.rehearsal = rehearsal.Rehearsal(control, lint.linter, [QUICK, not_static, nobody])
    await lint.start()

    async def work() -> None:
        async with connected(control.server, "c") as client:
            while True:
                await client.ask(HeartbeatRequest("g", 1, "m"))
                await client.ask(FindCoordinatorRequest(coordinator_keys=["g"]))

    working = asyncio.create_task(work())
    await lint.rehearsal.play()
    working.cancel()
    with suppress(asyncio.CancelledError):
        await working
    await lint.stop()
    assert [(one.name, len(one.reactions)) for one in lint.rehearsal.played] == [
        ("quick", 1),
        ("static", 0),
        ("nobody", 0),
    ]
    report = lint.report()
    assert "FindCoordinator COORDINATOR_NOT_AVAILABLE at 0 ms, Heartbeat UNKNOWN_MEMBER_ID at" in said[0]
    assert "  no client was hit" in as_text(report, str)
    assert as_json(report)["rehearsal"][0]["clients"][0]["hits"] == 1


@pytest.mark.parametrize("name", MOMENTS)
def test_each_moment_is_explained(name: str) -> None:
    moment = MOMENTS[name]
    assert moment.about
    assert moment.name == name


async def test_a_leader_that_has_moved_is_answered_by_rows_also_in_a_session() -> None:
    async with controlled() as control, connected(control.server, "c") as client:
        control.faults.add(Match(api=("Fetch", "Metadata")), LeaderError("NOT_LEADER_OR_FOLLOWER"))
        metadata = await client.ask(MetadataRequest(topics=[MetadataRequestTopic(name="orders")]))
        (topic,) = metadata.topics
        assert [(row.error_code, row.leader_id) for row in topic.partitions] == [(5, -1)] * 2
        asked = FetchTopic(topic_id=topic.topic_id, partitions=[FetchPartition(0), FetchPartition(1)])
        first = await client.ask(FetchRequest(session_epoch=0, topics=[asked], max_wait_ms=60_000, min_bytes=1))
        next_ = await client.ask(FetchRequest(session_id=first.session_id, session_epoch=1, max_wait_ms=60_000))
        for answer in (first, next_):
            rows = [row for one in answer.responses for row in one.partitions]
            assert (answer.error_code, [(row.partition_index, row.error_code) for row in rows]) == (0, [(0, 6), (1, 6)])
