"""The allowed rate of new connections: by calculation, and over TCP."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from muster.coordinator.net import connection_rates, listener
from muster.coordinator.net.connection_rates import ConnectionRates
from muster.coordinator.net.settings import NO_LIMIT
from muster.coordinator.quotas.managers import Windows
from muster.coordinator.server import Server
from muster.coordinator.system.clock import ManualClock
from muster.protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from muster.protocol.messages.metadata import MetadataRequest
from tests.coordinator.api.quotas.exchanges import alter, change
from tests.support.muster import Client, connected, running, until

SHORT = {"quota.window.num": "2"}


def make(clock: ManualClock | None = None) -> ConnectionRates:
    return ConnectionRates(Windows(2, 1000), clock or ManualClock(0))


class TestRates:
    def test_connections_do_not_wait_without_rate_limits(self) -> None:
        rates = make()
        assert [rates.delay_ms("A") + rates.refusal_ms("A", "10.0.0.1") for _ in range(1_000)] == [0] * 1_000

    def test_the_servers_rate_limit_counts_all_listeners(self) -> None:
        rates = make()
        rates.limit(2, {"A": NO_LIMIT, "B": NO_LIMIT})
        assert [rates.delay_ms(name) for name in ("A", "B", "A", "B")] == [0, 0, 500, 1000]

    def test_a_listeners_rate_limit_counts_only_its_own_connections(self) -> None:
        rates = make()
        rates.limit(NO_LIMIT, {"A": 1, "B": 10})
        assert [rates.delay_ms(name) for name in ("A", "B", "A", "B", "A")] == [0, 0, 1000, 0, 1000]

    def test_new_connections_are_allowed_after_some_time(self) -> None:
        clock = ManualClock(0)
        rates = make(clock)
        rates.limit(1, {})
        assert rates.delay_ms("A") == 0
        clock.advance(5_000)
        assert rates.delay_ms("A") == 0

    def test_refused_connections_are_not_counted(self) -> None:
        rates = make()
        rates.limit(3, {})
        rates.limit_address("10.0.0.1", 1.0)
        hosts = ("10.0.0.1", "10.0.0.1", "10.0.0.1", "10.0.0.2", "10.0.0.2")
        found = [(rates.delay_ms("A"), rates.refusal_ms("A", host)) for host in hosts]
        assert found == [(0, 0), (0, 1000), (0, 1000), (0, 0), (0, 0)]

    def test_rate_limits_of_addresses_can_be_set_and_removed(self) -> None:
        rates = make()
        rates.limit_address(None, 1.0)
        rates.limit_address("10.0.0.2", 2.0)
        assert [rates.refusal_ms("A", "10.0.0.1") for _ in range(2)] == [0, 1000]
        assert [rates.refusal_ms("A", "10.0.0.2") for _ in range(3)] == [0, 0, 500]
        rates.limit_address("10.0.0.2", None)
        assert rates.refusal_ms("A", "10.0.0.2") == 1000
        rates.limit_address(None, None)
        assert rates.refusal_ms("A", "10.0.0.2") == 0

    def test_a_rate_limit_of_nan_refuses_all_connections(self) -> None:
        rates = make()
        rates.limit_address("10.0.0.1", float("nan"))
        assert rates.refusal_ms("A", "10.0.0.1") == 1000

    def test_the_number_of_counted_addresses_is_bounded(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(connection_rates, "MAX_ADDRESSES", 2)
        rates = make()
        rates.limit_address(None, 1.0)
        assert [rates.refusal_ms("A", host) for host in ("a", "b", "a", "c", "a", "b")] == [0, 0, 1000, 0, 1000, 0]


async def ask(server: Server) -> tuple[bool, float]:
    """Connect and ask: whether the request is answered, and after how many ms."""
    began_ms = server.clock.mono_ms()
    async with connected(server) as client:
        try:
            await client.ask(MetadataRequest([]))
        except (asyncio.IncompleteReadError, ConnectionResetError):
            return False, server.clock.mono_ms() - began_ms
        return True, server.clock.mono_ms() - began_ms


async def test_connections_above_the_rate_wait() -> None:
    async with running({**SHORT, "max.connection.creation.rate": "20"}) as server:
        found = await asyncio.gather(*[ask(server) for _ in range(22)])
        assert all(is_answered for is_answered, _ in found)
        # the 21st: one too many in a second that allows 20
        assert max(waited for _, waited in found) >= 50


async def test_a_waiting_connection_ends_with_the_server() -> None:
    async with running({**SHORT, "listener.name.plaintext.max.connection.creation.rate": "1"}) as server:
        assert (await ask(server))[0]
        asked = [asyncio.ensure_future(ask(server)) for _ in range(2)]
        await until(lambda: server.nodes[0]._listeners[0]._held is not None)
    assert [is_answered for is_answered, _ in await asyncio.gather(*asked)] == [False, False]


async def test_connections_of_an_address_above_its_rate_are_closed_after_a_delay(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with running(SHORT) as server, connected(server) as client:
        # an earlier connection counts
        await client.ask(alter(change((("ip", "127.0.0.1"),), ("connection_creation_rate", 20.0))))
        found = await asyncio.gather(*[ask(server) for _ in range(22)])
        assert sum(is_answered for is_answered, _ in found) == 20
        assert all(waited >= 50 for is_answered, waited in found if not is_answered)
        monkeypatch.setattr(listener, "MAX_REFUSED", 1)
        await client.ask(alter(change((("ip", "127.0.0.1"),), ("connection_creation_rate", 1.0))))
        asked = [asyncio.ensure_future(ask(server)) for _ in range(2)]
        await until(lambda: any(one.done() for one in asked))
        await until(lambda: len(server.nodes[0]._listeners[0]._refused) == 1)
        await client.ask(alter(change((("ip", "127.0.0.1"),), ("connection_creation_rate", None))))
        assert (await ask(server))[0]


async def test_rate_limits_of_host_names_apply_to_their_addresses() -> None:
    async with running(SHORT) as server, connected(server) as client:
        await client.ask(alter(change((("ip", "localhost"),), ("connection_creation_rate", 7.0))))
        limits: Any = server.nodes[0].limits
        rates = limits.rates
        await until(lambda: bool(rates._addresses))
        assert set(rates._addresses.values()) == {7}
        assert set(rates._addresses) <= {"127.0.0.1", "0:0:0:0:0:0:0:1"}


async def configure(client: Client, **values: str) -> list[Any]:
    configs = [AlterableConfig(name.replace("_", "."), 0, value) for name, value in values.items()]
    answer = await client.ask(IncrementalAlterConfigsRequest([AlterConfigsResource(4, "1", configs)]))
    return [(row.error_code, row.error_message) for row in answer.responses]


async def test_a_listener_has_its_own_connection_limit() -> None:
    async with (
        running({"listener.name.plaintext.max.connections": "1"}) as server,
        connected(server) as first,
        connected(server) as second,
    ):
        await first.ask(MetadataRequest([]))
        asked = second.send(MetadataRequest([]))
        await until(lambda: server.nodes[0].limits is not None and len(server.nodes[0].limits._waiting) == 1)
        assert await configure(first, listener_name_plaintext_max_connections="0") == [
            (42, "Invalid value org.apache.kafka.common.config.ConfigException: Invalid max.connections 0 "
                 "for configuration Invalid dynamic configuration"),
        ]  # fmt: skip
        first.writer.close()
        assert (await second.receive(asked)).brokers
        assert await configure(second, listener_name_plaintext_max_connections="2") == [(0, None)]
        assert (await ask(server))[0]


async def test_a_lower_connection_limit_closes_surplus_connections() -> None:
    async with (
        running() as server,
        connected(server) as oldest,
        connected(server) as silent,
        connected(server) as newest,
    ):
        for one in (oldest, silent, newest):
            await one.ask(MetadataRequest([]))
        assert server.nodes[0].limits is not None
        _, connection, _ = server.nodes[0].limits.connections
        connection.alive = False
        assert await configure(oldest, max_connections="2") == [(0, None)]
        assert await silent.closed()
        for one in (oldest, newest):
            assert (await one.ask(MetadataRequest([]))).brokers
