"""The clock that a test moves: alone, and under a server with real clients."""

from __future__ import annotations

import asyncio
import contextlib
import random
from collections.abc import Callable
from itertools import count
from typing import Any

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from aiokafka.errors import KafkaError

from muster.coordinator.config import load
from muster.coordinator.server.machine import Machine
from muster.coordinator.state_machine.interface import Now
from muster.coordinator.system.clock import LoopClock, ManualClock
from muster.protocol.messages.heartbeat import HeartbeatRequest
from muster.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from muster.protocol.messages.sync_group import SyncGroupRequest
from muster.testcontrol.clock import MovableClock
from muster.testcontrol.errors import CannotBeDone
from muster.testcontrol.server_control import ServerControl
from muster.testcontrol.topics import NewRecord
from muster.testcontrol.virtual_time import RanInVain
from tests.support.consumers import stopped
from tests.support.muster import Client, connected, until
from tests.testcontrol.server import bootstrap, controlled


def movable() -> tuple[MovableClock, ManualClock]:
    machine: Any = ManualClock(mono_ms=1_000, wall_ms=5_000)
    return MovableClock(machine), machine


def noting(clock: MovableClock, fired: list[tuple[str, int]], name: str) -> Callable[[], None]:
    return lambda: fired.append((name, clock.mono_ms()))


def test_virtual_time_follows_the_machine_until_it_is_moved() -> None:
    clock, machine = movable()
    assert clock.now() == machine.now() == clock.moment() == Now(1_000, 5_000)
    assert clock.now == machine.now  # the call takes no time
    machine.advance(5)
    assert (clock.mono_ms(), clock.ahead_ms, clock.is_frozen) == (1_005, 0, False)
    clock.freeze()
    clock.freeze()
    machine.advance(100)
    assert (clock.now(), clock.moment(), clock.ahead_ms) == (Now(1_005, 5_005), Now(1_005, 5_005), -100)
    clock.move_to(2_000)
    assert clock.now() == Now(2_000, 6_000)
    clock.thaw()
    clock.thaw()
    machine.advance(1)
    assert (clock.now(), clock.moment(), clock.mono_ms(), clock.ahead_ms) == (
        Now(2_001, 6_001),
        Now(2_001, 6_001),
        2_001,
        895,
    )
    with pytest.raises(AssertionError, match="by itself"):
        clock.move_to(3_000)
    clock.freeze()
    with pytest.raises(AssertionError, match="backwards"):
        clock.move_to(2_000)


def test_timers_fire_in_order_and_on_time() -> None:
    clock, machine = movable()
    fired: list[tuple[str, int]] = []
    for name, due_ms in (("c", 1_030), ("a", 1_010), ("b", 1_010)):
        clock.call_at(due_ms, noting(clock, fired, name))
    clock.call_at(1_020, noting(clock, fired, "never")).cancel()
    assert clock.next_due_ms == 1_010
    machine.advance(15)
    assert [name for name, _ in fired] == ["a", "b"]
    clock.freeze()
    machine.advance(100)
    assert (len(fired), clock.next_due_ms) == (2, 1_030)
    clock.thaw()
    machine.advance(14)
    assert len(fired) == 2
    machine.advance(1)
    assert fired[2] == ("c", 1_030)
    assert clock.next_due_ms is None


def test_due_timers_fire_while_virtual_time_stands_still() -> None:
    clock, machine = movable()
    clock.freeze()
    fired: list[tuple[str, int]] = []
    clock.call_at(1_001, noting(clock, fired, "later"))
    clock.call_at(1_000, noting(clock, fired, "now"))
    clock.call_at(900, lambda: clock.call_at(900, noting(clock, fired, "then")))
    machine.advance(0)
    machine.advance(0)
    assert sorted(name for name, _ in fired) == ["now", "then"]


def test_a_failing_timer_does_not_stop_the_others() -> None:
    clock, machine = movable()
    fired: list[tuple[str, int]] = []
    clock.call_at(1_001, lambda: 1 / 0)
    clock.call_at(1_001, noting(clock, fired, "b"))
    with pytest.raises(ZeroDivisionError):
        machine.advance(2)
    machine.advance(0)
    assert fired == [("b", 1_001)]


def test_timers_due_together_fire_in_an_order_drawn_by_the_seed() -> None:
    def rings(seed: int | None) -> list[str]:
        machine: Any = ManualClock()
        clock = MovableClock(machine, None if seed is None else random.Random(seed))
        fired: list[tuple[str, int]] = []
        for name in "abcdef":
            clock.call_at(clock.mono_ms() + 5, noting(clock, fired, name))
        clock.call_at(clock.mono_ms() + 4, noting(clock, fired, "first"))
        machine.advance(5)
        return [name for name, _ in fired]

    assert rings(None) == ["first", *"abcdef"]
    assert rings(7) == rings(7)
    assert {tuple(sorted(rings(seed)[1:])) for seed in range(9)} == {tuple("abcdef")}
    assert len({tuple(rings(seed)) for seed in range(9)}) > 5
    assert all(rings(seed)[0] == "first" for seed in range(9))


def test_a_timer_cancelled_by_an_earlier_one_does_not_fire() -> None:
    clock, machine = movable()
    fired: list[tuple[str, int]] = []
    clock.call_at(1_001, lambda: last.cancel())
    last = clock.call_at(1_001, noting(clock, fired, "last"))
    machine.advance(1)
    assert (fired, clock.next_due_ms) == ([], None)


def test_cancelled_timers_are_freed() -> None:
    clock, _ = movable()
    clock.call_at(9_000, lambda: None)
    for _ in range(1_000):
        clock.call_at(5_000, lambda: None).cancel()
    assert len(clock._timers) < 200
    assert clock.next_due_ms == 9_000


def test_a_jump_skips_all_but_the_last_repeated_timer() -> None:
    clock, _ = movable()
    clock.freeze()
    fired: list[tuple[str, int]] = []
    clock.call_at(1_010, noting(clock, fired, "check"), 10)
    clock.call_at(1_007, noting(clock, fired, "sync"), 7)
    clock.call_at(1_500, noting(clock, fired, "session"))
    for _ in range(2):  # the second call has nothing to skip
        assert clock.skip_repeated(9_000) == 1_500
    for due_ms in (1_497, 1_500):
        assert clock.next_due_ms == due_ms
        clock.move_to(due_ms)
        clock.fire()
    assert sorted(fired) == [("check", 1_500), ("session", 1_500), ("sync", 1_497)]
    assert (clock.skip_repeated(9_000), clock.next_due_ms) == (9_000, None)


async def member(client: Client, session_ms: int = 10_000, group_id: str = "g") -> str:
    """A member that is alone in its group."""
    request = JoinGroupRequest(
        group_id, session_ms, session_ms, "", None, "consumer", [JoinGroupRequestProtocol("range", b"")]
    )
    joined = await client.ask(request, 3)
    synced = await client.ask(SyncGroupRequest(group_id, joined.generation_id, joined.member_id), 3)
    assert (joined.error_code, synced.error_code) == (0, 0)
    return str(joined.member_id)


class TestOnAServer:
    async def test_a_session_ends_when_its_time_has_passed_and_not_before(self) -> None:
        async with controlled() as found, connected(found.server) as client:
            time = found.time
            assert time.freeze().frozen
            member_id = await member(client)
            await time.advance(9_999)
            assert found.groups.describe("g").state == "Stable"
            assert (await client.ask(HeartbeatRequest("g", 1, member_id), 3)).error_code == 0
            await time.advance(9_999)  # the heartbeat counts from when it came
            assert found.groups.describe("g").state == "Stable"
            view = await time.advance(1)
            assert (found.groups.describe("g").state, view.frozen) == ("Empty", True)
            assert view.ahead_ms > 19_000
            history = await found.groups.history("g")
            assert any("10 s" in line or "10000" in line for line in history), history

    async def test_running_virtual_time_can_be_moved(self) -> None:
        async with controlled() as found, connected(found.server) as client:
            await member(client)
            before = found.time.now()
            after = await found.time.advance(20_000)
            assert found.groups.describe("g").state == "Empty"
            assert (before.frozen, after.frozen) == (False, False)
            assert 20_000 <= after.wall_ms - before.wall_ms < 30_000
            assert found.time.thaw().ahead_ms > 19_000

    async def test_a_rebalance_delay_passes_with_real_clients(self) -> None:
        delay = {"group_initial_rebalance_delay_ms": "200000"}
        async with controlled(starts_frozen=True, **delay) as found:
            consumer = AIOKafkaConsumer(
                "orders", bootstrap_servers=bootstrap(found), group_id="g", rebalance_timeout_ms=600_000
            )
            started = asyncio.ensure_future(consumer.start())  # the member waits for its partitions
            try:
                await found.time.run_until(
                    lambda: found.groups.describe("g").is_stable, what="g is stable", limit_ms=900_000
                )
                await started
                assert found.time.now().ahead_ms > 190_000
                assert len(consumer.assignment()) == 2
                assert found.time.is_idle()
            finally:
                started.cancel()
                await stopped(consumer)

    async def test_offsets_expire_after_a_week(self) -> None:
        async with controlled() as found, connected(found.server) as client:
            await member(client)
            await found.groups.reset_offsets("other", 0, "orders")
            assert found.groups.describe("other").offsets
            found.time.freeze()
            await found.time.advance(8 * 24 * 3_600_000)
            assert not found.groups.describe("other").offsets

    async def test_moving_time_by_years_costs_only_its_due_timers(self) -> None:
        async with controlled(nodes=2) as found, connected(found.server) as client:
            clock, fired = found.server.clock, 0
            assert isinstance(clock, MovableClock)
            fire = clock.fire

            def counting() -> int:
                nonlocal fired
                fired += (some := fire())
                return some

            clock.fire = counting
            group_id = next(name for name in map(str, count()) if found.nodes.coordinator_of(name) == 1)
            await member(client, group_id=group_id)
            await found.groups.reset_offsets("other", 0, "orders")
            await found.topics.produce("orders", [NewRecord(b"a", partition=0)])
            before = found.time.freeze()
            await found.time.advance(24 * 3_600_000)
            events = await found.groups.events(group_id)
            expired = next(one for one in events if one["kind"] == "member_expired")
            assert 0 <= expired["time"] - before.wall_ms <= 10_000  # the task runs on its own time
            after = await found.time.advance(20 * 365 * 24 * 3_600_000)
            assert after.mono_ms - before.mono_ms == (20 * 365 + 1) * 24 * 3_600_000
            assert fired < 200  # of some 20 million checkpoints and checks
            # the result is as if each of these had happened
            assert found.groups.describe(group_id).state == "Dead"
            assert not found.groups.describe("other").offsets
            assert found.topics.start_offsets("orders")[0] == 1

    async def test_an_open_transaction_is_aborted_by_moved_time(self) -> None:
        async with controlled(topics=["orders:1"]) as found:
            producer = AIOKafkaProducer(
                bootstrap_servers=bootstrap(found), transactional_id="t", transaction_timeout_ms=60_000
            )
            await producer.start()
            try:
                await producer.begin_transaction()
                await producer.send_and_wait("orders", b"a")
                partition = found.server.topics.open.partition("orders", 0)
                assert partition is not None
                await found.time.advance(59_000)
                assert partition.last_stable_offset() == 0
                await found.time.advance(30_000)
                await until(lambda: partition.last_stable_offset() == 2)  # the record and the marker
            finally:
                with contextlib.suppress(KafkaError):
                    await producer.stop()

    async def test_a_wait_for_an_impossible_state_is_reported(self) -> None:
        async with controlled() as found:
            with pytest.raises(RanInVain, match="not so after 1000 ms of virtual time: pigs fly"):
                await found.time.run_until(lambda: False, what="pigs fly", limit_ms=1_000, settle_ms=0)
            with pytest.raises(RanInVain, match="of the machine's time: it is so"):
                await found.time.run_until(lambda: False, settle_ms=0, timeout_ms=0)
            assert not found.time.now().frozen

    async def test_a_server_on_another_machine_has_no_virtual_time(self) -> None:
        config = load(listen="127.0.0.1:0", in_memory=True)
        found = ServerControl(config, machine=Machine())
        await found.server.start()
        assert isinstance(found.server.clock, LoopClock)
        assert not found.time.is_movable
        with pytest.raises(CannotBeDone, match="cannot be moved"):
            found.time.freeze()
        await found.server.stop()
