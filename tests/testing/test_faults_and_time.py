"""Faults and virtual time in tests of both kinds, with consumers of each library."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Iterator

import pytest
from aiokafka.errors import KafkaError

from muster.testing import Muster
from muster.testing.against import Against, OnlyMuster
from muster.testing.faults import (
    Call,
    Cut,
    Error,
    Hold,
    LoseAnswer,
    Match,
    NoSuchFault,
    WrongFault,
    once,
    times,
    until_released,
)
from muster.testing.time import RanInVain
from tests.e2e.aio import consuming
from tests.testing.clients import CLIENTS, attempts


@pytest.fixture(scope="module")
def server() -> Iterator[Muster]:
    with Muster(topics={"orders": 4}) as running:
        yield running


@pytest.fixture(autouse=True)
def tidied(server: Muster) -> Iterator[None]:
    yield
    server.tidy()


@pytest.mark.parametrize("client", CLIENTS)
def test_each_client_recovers_from_a_move_of_its_coordinator(server: Muster, client: str) -> None:
    attempts(client, lambda group_id: gets_over_a_move(server, client, group_id))


def gets_over_a_move(server: Muster, client: str, group_id: str) -> None:
    group = server.group(f"moved-{group_id}")
    server.topic("orders").produce(*"abcd")
    match = Match(api=("Heartbeat", "ConsumerGroupHeartbeat"), group=group.id)
    with CLIENTS[client](server.bootstrap_servers, "orders", group.id, "one"):
        group.wait_stable(members=1, partitions="orders")
        with server.faults.add(match, Error("NOT_COORDINATOR"), times(2), name="moved") as fault:
            group.wait_until(lambda _: fault.hits == 2, what="has heard it twice")
        assert group.wait_consumed("orders").total_lag == 0
    hits = [hit for hit in server.faults.log() if hit["group"] == group.id]
    assert [hit["did"] for hit in hits] == ["answered NOT_COORDINATOR"] * 2
    assert "moved" in repr(fault)


async def test_a_lost_answer_to_a_commit_is_injected(server: Muster) -> None:
    topic, group = await server.aio.topic("lost").create(1), server.group("lost").aio
    await topic.produce("x")
    async with consuming(server.bootstrap_servers, "lost", group_id="lost") as consumer:
        await consumer.getone()
        async with await server.aio.faults.add(Match(api="OffsetCommit"), LoseAnswer(), once()) as fault:
            # the client asks again, or reports that it does not know; the commit counts
            with contextlib.suppress(KafkaError):
                await consumer.commit()
            assert fault.hits == 1
        assert (await group.wait_consumed("lost")).offsets == {"lost": {0: 1}}
    assert (await server.aio.faults.log())[-1]["rule"] == fault.id


async def test_answers_are_delayed_until_the_release(server: Muster) -> None:
    seen: list[str] = []
    faults = server.aio.faults
    async with consuming(server.bootstrap_servers, "orders", group_id="held") as consumer:
        await server.group("held").aio.wait_stable(members=1)
        fault = await faults.add(Match(api="OffsetCommit", group="held"), Hold(), until_released())
        noted = await faults.add(
            Match(predicate=lambda request: request.api == "OffsetCommit"),
            Call(lambda request: seen.append(request.client_id)),
        )
        committing = asyncio.create_task(consumer.commit({next(iter(consumer.assignment())): 0}))
        await server.group("held").aio.wait_until(lambda _: fault.held == 1, what="the answer is held")
        assert not committing.done()
        await fault.release()
        await committing
        assert noted.hits >= 1
        assert seen
    await faults.clear()
    with pytest.raises(NoSuchFault):
        await fault.release()
    await fault.remove()


def test_a_rule_without_an_action_only_records_matches(server: Muster) -> None:
    with server.faults.add(Match(api="Metadata")) as fault:
        assert fault.hits == 0
        assert fault.held == 0
        other = server.faults.add(Match(group="nobody"), Cut())
        other.remove()
        other.remove()
        with pytest.raises(NoSuchFault):
            other.release()
        server.faults.clear()


@pytest.mark.parametrize("client", ["aiokafka", "confluent", "kafka-python"])
def test_advancing_time_expires_a_session(server: Muster, client: str) -> None:
    attempts(client, lambda group_id: time_ends_a_session(server, client, group_id))


def time_ends_a_session(server: Muster, client: str, group_id: str) -> None:
    server.tidy()
    group = server.group(f"time-{group_id}")
    with CLIENTS[client](server.bootstrap_servers, "orders", group.id, "one"):
        view = group.wait_stable(members=1, partitions="orders")
        before = server.time.freeze()
        assert before.frozen
        after = server.time.advance(31_000)
        assert after.mono_ms - before.mono_ms == 31_000
        assert any(event["kind"] == "member_expired" for event in group.events())
        # its client joins again in real time
        group.wait_until(lambda one: one.is_stable and one.generation > view.generation)
        assert not server.time.thaw().frozen


async def test_time_advances_until_a_group_is_stable() -> None:
    async with (
        Muster(topics={"orders": 2}, group_initial_rebalance_delay_ms=60_000) as server,
        asyncio.TaskGroup() as tasks,
    ):
        over = asyncio.Event()

        async def consume() -> None:
            async with consuming(server.bootstrap_servers, "orders", group_id="g", rebalance_timeout_ms=120_000):
                await over.wait()

        joining = tasks.create_task(consume())
        await server.group("g").wait_until(lambda group: len(group.members) == 1, what="has a member")
        began = await server.time.freeze()
        # the test does not wait for the minute of the server's time
        ended = await server.time.run_until("g", members=1, partitions="orders")
        assert 50_000 <= ended.mono_ms - began.mono_ms <= 130_000
        assert (await server.time.now()).frozen
        await server.time.run_until()
        with pytest.raises(RanInVain, match="with 2 members"):
            await server.time.run_until("g", members=2, limit_ms=1_000, settle_ms=1)
        await server.time.thaw()
        over.set()
        await joining


async def test_a_scenario_is_run_by_its_name(server: Muster) -> None:
    group = server.group("scenario").aio
    async with consuming(server.bootstrap_servers, "orders", group_id="scenario", client_id="c"):
        before = await group.wait_stable(members=1)
        async with await server.aio.scenario("flapping-member", group="scenario", member="c", every=2) as scenario:
            await group.wait_until(lambda view: view.is_stable and view.generation > before.generation + 1)
        with pytest.raises(NoSuchFault):
            scenario.end()
    with pytest.raises(WrongFault):
        server.scenario("flapping-member", group="scenario")
    with server.scenario("slow-coordinator", group="scenario", ms=1) as slow:
        assert slow.steps


def test_an_existing_cluster_refuses_faults_and_time(server: Muster) -> None:
    with Muster(runner=Against(server.bootstrap_servers)) as cluster:
        for only in (
            cluster.faults.clear,
            cluster.time.freeze,
            cluster.time.run_until,
            lambda: cluster.scenario("zombie"),
        ):
            with pytest.raises(OnlyMuster):
                only()


def test_a_failed_wait_that_advances_time_ends_with_the_reason(server: Muster) -> None:
    failures: list[BaseException] = []

    def run() -> None:
        try:
            server.time.run_until("nobody", limit_ms=10, settle_ms=1)
        except AssertionError as failure:
            failures.append(failure)

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    assert "group nobody is stable" in str(failures[0])
